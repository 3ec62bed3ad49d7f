#include "sixfold/package/emit.h"

#include <algorithm>
#include <optional>

#include "sixfold/package/bounds.h"
#include "sixfold/package/out_kernels.h"
#include "sixfold/package/storage.h"
#include "sixfold/package/values.h"
#include "sixfold/pte/scalar_type.h"

namespace sixfold {
namespace {

using pte::Index;

class Emitter : private Dim::Visitor {
 public:
  Emitter(const MethodSource& source, const PackageOptions& options, Package& package)
      : graph_(source.graph), options_(options), package_(package), values_(method_) {
    method_.name = report_.name = source.name;
    method_.input_structure = source.input_structure;
    method_.output_structure = source.output_structure;
    method_.chains.emplace_back();
    for (const DelegateSource& d : source.delegates) {
      const DelegateSource& kept = package.delegates.emplace_back(d);
      pte::Delegate& out = method_.delegates.emplace_back();
      out.id = kept.id;
      out.blob = *kept.blob;
      for (const auto& [key, value] : kept.specs) out.specs.push_back({key, value});
    }
    report_.delegates = method_.delegates.size();
    tensors_.assign(graph_.value_count(), -1);
  }

  Status emit() {
    SF_ASSIGN(placement_, place_values(graph_, options_));
    for (const Leaf& leaf : graph_.inputs) {
      SF_ASSIGN(const Index v, leaf_value(leaf));
      // A text is part of the program already, and ExecuTorch's Python API has no way to give one.
      const bool text = !leaf.value.valid() && std::holds_alternative<std::string>(leaf.literal);
      method_.inputs.push_back(text ? values_.none() : v);
    }
    for (const NodeId id : placement_.steps)
      if (Status s = emit_call(graph_.node(id)); !s.ok())
        return s.take_error().during(cat("packaging ", describe(graph_, graph_.node(id))));
    for (const Leaf& leaf : graph_.outputs) {
      SF_ASSIGN(const Index v, leaf_value(leaf));
      method_.outputs.push_back(v);
    }
    for (const Graph::Mutation& m : graph_.mutations) {
      const Index state = tensor(m.state);
      push_call("aten::copy_", "", {state, tensor(m.next), values_.boolean(false), state});
    }
    method_.buffer_sizes = {0, static_cast<int64_t>(placement_.arena_bytes)};
    report();
    package_.program.methods.push_back(std::move(method_));
    package_.methods.push_back(std::move(report_));
    return {};
  }

 private:
  // Tensors
  Index tensor(ValueId id) {
    Index& at = tensors_[id.index];
    if (at < 0) at = values_.add(describe_tensor(id));
    return at;
  }

  pte::Tensor describe_tensor(ValueId id) {
    const Value& v = graph_.value(id);
    pte::Tensor t;
    t.dtype = v.type.dtype;
    const auto bound = bound_of(v.type.dims, graph_.symbols);  // place_values has seen it
    for (const int64_t n : *bound) t.sizes.push_back(static_cast<int32_t>(n));
    for (size_t i = 0; i < t.sizes.size(); ++i) t.dim_order.push_back(static_cast<uint8_t>(i));
    t.dynamism = is_static(v.type.dims) ? pte::Dynamism::fixed : pte::Dynamism::bounded;
    const Storage& s = placement_.of(id);
    const Value& owner = graph_.value(s.owner);
    if (s.kind == Storage::constant && s.bytes == 0) {
      t.allocation =
          pte::Allocation{1, 0};  // the runtime refuses a file whose constants have no bytes at all
    } else if (s.kind == Storage::constant) {
      t.data_index = data_index(package_.program.constants, owner.constant, &report_.constant_bytes);
      t.name = owner.name;
    } else if (s.kind == Storage::planned) {
      t.allocation = pte::Allocation{1, s.offset};
      if (owner.kind == ValueKind::state) {
        t.data_index = data_index(package_.program.mutable_data, owner.constant, &report_.state_bytes);
        t.name = owner.name;
      }
    }
    return t;
  }

  // The bytes themselves stay in the mapped file unless they have strides.
  uint32_t data_index(std::vector<std::span<const std::byte>>& pool, const Tensor& data, uint64_t* bytes) {
    const Tensor& kept = package_.data.emplace_back(to_contiguous(data));
    const std::span<const std::byte> view{kept.data, kept.size_bytes()};
    if (pool.empty()) pool.emplace_back();  // entry 0 means "none"
    const auto known = std::find_if(pool.begin() + 1, pool.end(), [&](const auto& p) {
      return p.data() == view.data() && p.size() == view.size();
    });
    if (known != pool.end()) return static_cast<uint32_t>(known - pool.begin());
    *bytes += view.size();
    pool.push_back(view);
    return static_cast<uint32_t>(pool.size() - 1);
  }

  // A leaf of the signature: a tensor, or a number that the program fixes or computes.
  Result<Index> leaf_value(const Leaf& leaf) {
    if (leaf.value.valid()) return tensor(leaf.value);
    return argument(SchemaArg{.name = leaf.name, .type = ArgType::number, .nullable = true}, leaf.literal);
  }

  // Arguments
  Result<Index> argument(const SchemaArg& arg, const Attr& attr) {
    if (std::holds_alternative<std::monostate>(attr)) return values_.none();
    if (const bool* b = std::get_if<bool>(&attr)) return values_.boolean(*b);
    if (const double* x = std::get_if<double>(&attr)) return values_.real(*x);
    if (const Dim* d = std::get_if<Dim>(&attr)) {
      if (arg.type == ArgType::real && d->is_static()) return values_.real(static_cast<double>(d->value()));
      return extent(*d);
    }
    if (const DType* d = std::get_if<DType>(&attr)) return values_.integer(pte::scalar_type_of(*d));
    if (const auto* reals = std::get_if<std::vector<double>>(&attr)) return values_.reals(*reals);
    if (const Dims* dims = std::get_if<Dims>(&attr)) return integers(arg, *dims);
    if (const std::string* text = std::get_if<std::string>(&attr)) {
      if (arg.type == ArgType::memory_format) return memory_format(*text);
      if (arg.type == ArgType::layout || arg.type == ArgType::device) return values_.none();
      return values_.text(*text);
    }
    return fail(Code::Internal, "argument '", arg.name, "' is ", to_text(attr));
  }

  Result<Index> integers(const SchemaArg& arg, const Dims& dims) {
    if (arg.type == ArgType::boolean) {
      std::vector<bool> flags;
      for (const Dim& d : dims) flags.push_back(d.value_or(0) != 0);
      return values_.booleans(flags);
    }
    std::vector<Index> items;
    for (const Dim& d : dims) {
      SF_ASSIGN(const Index item, extent(d));
      items.push_back(item);
    }
    return values_.ints(items);
  }

  Result<Index> memory_format(const std::string& text) {
    if (text == "contiguous") return values_.integer(0);
    if (text == "preserve") return values_.integer(1);
    return unsupported("memory format ", text, " has no number in a .pte");
  }

  Status emit_delegate(const Node& node) {
    const auto index = static_cast<uint64_t>(node.attrs.integer("index"));
    if (index >= method_.delegates.size())
      return fail(Code::Internal, "delegate ", index, " is not one of ", method_.delegates.size());
    pte::DelegateCall call{static_cast<uint32_t>(index), {}};
    for (const ValueId v : node.inputs) call.args.push_back(tensor(v));
    for (const ValueId v : node.outputs) call.args.push_back(tensor(v));
    method_.chains[0].emplace_back(std::move(call));
    return {};
  }

  Status emit_call(const Node& node) {
    if (node.target == "delegate") return emit_delegate(node);
    const OutKernel* kernel = find_out_kernel(node.target);
    if (!kernel) return unsupported("ExecuTorch has no kernel for ", node.target);
    std::vector<Index> args, outs;
    for (const ValueId v : node.outputs) outs.push_back(tensor(v));
    size_t next_out = 0;
    for (const SchemaArg& arg : kernel->schema.args) {
      if (arg.mutates) {
        if (arg.list || next_out >= outs.size())
          return fail(Code::Internal, "result '", arg.name, "' of ", node.target, " is not one of ",
                      outs.size());
        args.push_back(outs[next_out++]);
        continue;
      }
      const Attr* attr = node.attrs.find(arg.name);
      if (!attr) return fail(Code::Internal, "argument '", arg.name, "' of ", node.target, " is missing");
      if (const Operands* operands = std::get_if<Operands>(attr)) {
        SF_ASSIGN(const Index v, operand(node, arg, *operands));
        args.push_back(v);
      } else {
        SF_ASSIGN(const Index v, argument(arg, *attr));
        args.push_back(v);
      }
    }
    args.push_back(outs.size() == 1 ? outs[0] : values_.tensors(outs, /*optional=*/false));
    push_call(kernel->name, kernel->overload, std::move(args));
    return {};
  }

  Result<Index> operand(const Node& node, const SchemaArg& arg, const Operands& operands) {
    std::vector<Index> items;
    for (uint32_t i = operands.first; i < operands.first + operands.count; ++i)
      items.push_back(node.input(i).valid() ? tensor(node.input(i)) : -1);
    if (operands.list) return values_.tensors(items, arg.nullable_items);
    if (items.size() != 1)
      return fail(Code::Internal, "argument '", arg.name, "' is ", items.size(), " tensors");
    return items[0] < 0 ? values_.none() : items[0];
  }

  void push_call(std::string_view name, std::string_view overload, std::vector<Index> args) {
    const pte::Operator op{std::string(name), std::string(overload)};
    auto it = std::find(method_.operators.begin(), method_.operators.end(), op);
    if (it == method_.operators.end()) it = method_.operators.insert(it, op);
    const auto index = static_cast<uint32_t>(it - method_.operators.begin());
    method_.chains[0].emplace_back(pte::KernelCall{index, std::move(args)});
    ++report_.kernels[overload.empty() ? std::string(name) : cat(name, ".", overload)];
    const bool sizes = name.starts_with("executorch_prim::") || name == "aten::sym_size";
    ++(sizes ? report_.size_calls : report_.kernel_calls);
  }

  // Extents: a number, or arithmetic on the sizes of inputs, each expression once.
  Result<Index> extent(const Dim& d) {
    if (d.is_static()) return values_.integer(d.value());
    const auto [it, fresh] = extents_.try_emplace(to_text(d), -1);
    if (fresh) it->second = d.visit(*this);
    if (!unknown_symbol_.empty())
      return unsupported("symbol ", unknown_symbol_, " is not the size of an input");
    return it->second;
  }
  int number(int64_t value) override { return values_.integer(value); }
  int symbol(const std::string& name) override {
    const auto [it, fresh] = extents_.try_emplace(name, -1);
    if (fresh || it->second < 0) it->second = measure(name);
    return it->second;
  }
  int apply(Function function, int a, int b) override {
    static constexpr const char* kNames[] = {"add", "mul", "floordiv", "mod", "sym_max", "sym_min"};
    const Index out = values_.add(int64_t{0});
    push_call(cat("executorch_prim::", kNames[static_cast<size_t>(function)]), "Scalar", {a, b, out});
    return out;
  }

  // The symbol from an input whose extent is a * symbol + b.
  Index measure(const std::string& name) {
    for (const Leaf& leaf : graph_.inputs) {
      if (!leaf.value.valid()) continue;
      const Dims& dims = graph_.dims(leaf.value);
      for (size_t i = 0; i < dims.size(); ++i) {
        std::vector<std::string> names;
        dims[i].collect_symbols(names);
        if (names.size() != 1 || names[0] != name) continue;
        const int64_t b = dims[i].substitute({{name, 0}}).value_or(0);
        const int64_t a = dims[i].substitute({{name, 1}}).value_or(0) - b;
        if (a == 0 || !(dims[i] == Dim(a) * Dim::symbol(name) + Dim(b))) continue;
        Index size = values_.add(int64_t{0});
        push_call("aten::sym_size", "int",
                  {tensor(leaf.value), values_.integer(static_cast<int64_t>(i)), size});
        if (b != 0) size = apply(Function::add, size, values_.integer(-b));
        return a == 1 ? size : apply(Function::floordiv, size, values_.integer(a));
      }
    }
    unknown_symbol_ = name;
    return values_.integer(0);
  }

  void report() {
    report_.views = placement_.views;
    report_.in_place = placement_.in_place;
    report_.arena_bytes = placement_.arena_bytes;
    report_.naive_bytes = placement_.naive_bytes;
    for (const auto& [name, range] : graph_.symbols)
      if (range.max && extents_.contains(name))
        report_.bounded_symbols.push_back(cat(name, " <= ", *range.max));
  }

  const Graph& graph_;
  const PackageOptions& options_;
  Package& package_;
  pte::Method method_;
  Values values_;
  MethodReport report_;
  Placement placement_;
  std::vector<Index> tensors_;            // by graph value
  std::map<std::string, Index> extents_;  // by expression
  std::string unknown_symbol_;
};

}  // namespace

Status emit_method(const MethodSource& source, const PackageOptions& options, Package& package) {
  return Emitter(source, options, package).emit();
}

Result<Package> make_package(const std::vector<MethodSource>& methods, const PackageOptions& options) {
  Package package;
  for (const MethodSource& m : methods)
    if (Status s = emit_method(m, options, package); !s.ok())
      return s.take_error().during(cat("packaging method ", m.name));
  return package;
}

}  // namespace sixfold
