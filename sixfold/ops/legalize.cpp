#include "sixfold/ops/legalize.h"

#include <cstring>

namespace sixfold {
namespace {

constexpr LegalRule kRules[] = {
    nullptr,
#define OP(id, infer_fn, cpu_fn, layout, legal_fn) legalize::legal_fn,
#include "sixfold/ops/aten.def"
#undef OP
};

// What no kernel of ExecuTorch takes.
bool foreign(DType d) { return d == DType::u16 || d == DType::u32 || d == DType::u64; }

}  // namespace

LegalRule legal_rule(Op op) { return kRules[static_cast<size_t>(op)]; }

const Type& Legal::type(ValueId id) const {
  static const Type any{DType::f32, Dims(8, Dim(1))};
  return patch.status().ok() ? patch.type(id) : any;
}

Shape Legal::shape(ValueId id) {
  const Dims& d = dims(id);
  if (is_static(d)) return static_shape(d);
  patch.fail(sixfold::unsupported("needs static shapes, has ", type(id)));
  return Shape(d.size(), 1);
}

ValueId Legal::to(ValueId x, DType target) {
  return dtype(x) == target ? x : add(Op::to, {x}, {{"dtype", target}});
}
ValueId Legal::reshape(ValueId x, Dims shape) {
  return dims(x) == shape ? x : add(Op::reshape, {x}, {{"shape", std::move(shape)}});
}
ValueId Legal::permute(ValueId x, const Shape& order) {
  return add(Op::permute, {x}, {{"dims", to_dims(order)}});
}
ValueId Legal::expand(ValueId x, Dims shape) {
  return dims(x) == shape ? x : add(Op::expand, {x}, {{"shape", std::move(shape)}});
}
ValueId Legal::slice(ValueId x, int64_t dim, Dim start, Dim end, int64_t step) {
  return add(Op::slice, {x}, {{"dim", Dim(dim)}, {"start", start}, {"end", end}, {"step", Dim(step)}});
}
ValueId Legal::concat(std::vector<ValueId> xs, int64_t dim) {
  return xs.size() == 1 ? xs[0] : add(Op::concat, std::move(xs), {{"dim", Dim(dim)}});
}
ValueId Legal::index_select(ValueId x, int64_t dim, std::span<const int64_t> index) {
  return add(Op::index_select, {x, patch.constant(Tensor::of_ints(index))}, {{"dim", Dim(dim)}});
}

ValueId Legal::constant(DType dtype, const Shape& shape, std::span<const double> values) {
  assert(static_cast<size_t>(numel(shape)) == values.size());
  std::byte* bytes = nullptr;
  Tensor t = Tensor::allocate(dtype, shape, &bytes);
  with_type(dtype, [&](auto tag) {
    using T = decltype(tag);
    for (size_t i = 0; i < values.size(); ++i) {
      const T v = static_cast<T>(values[i]);
      std::memcpy(bytes + i * sizeof v, &v, sizeof v);
    }
  });
  return patch.constant(std::move(t));
}
ValueId Legal::ints(const Shape& shape, std::span<const int64_t> values) {
  assert(static_cast<size_t>(numel(shape)) == values.size());
  Tensor t = Tensor::of_ints(values);
  t.shape = shape;
  return patch.constant(std::move(t));
}

Match Legal::results(const std::vector<ValueId>& values) {
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i].valid()) patch.replace(node_.output(i), values[i]);
  return std::move(patch);
}

std::vector<ValueId> Legal::make_call(std::string_view target, std::vector<LegalArg> args,
                                      const std::vector<Type>& types) {
  const std::vector<ValueId> none(types.size(), kNoValue);
  if (!patch.status().ok()) return none;
  const Schema* schema = find_schema(target);
  NamedArguments given;
  for (LegalArg& arg : args) given.emplace_back(arg.name, std::move(arg.value));
  Result<CallOperands> call = schema ? complete_call(schema, std::move(given))
                                     : Result<CallOperands>(fail(Code::Internal, "it has no schema"));
  if (!call.ok()) {
    patch.fail(call.take_error().during(cat("making ", target)));
    return none;
  }
  if (types.size() != schema->returns.size())
    patch.fail(fail(Code::Internal, target, " gives ", schema->returns.size(), " results, its rule says ",
                    types.size()));
  for (const Type& t : types)
    if (foreign(t.dtype)) patch.fail(sixfold::unsupported("ExecuTorch's kernels have no ", t.dtype));
  for (const ValueId v : call->inputs)
    if (foreign(patch.dtype(v)))
      patch.fail(sixfold::unsupported("ExecuTorch's kernels have no ", patch.dtype(v)));
  return patch.add_call(std::string(target), std::move(call->inputs), std::move(call->attrs), types);
}

ValueId Legal::add_call(std::string_view target, std::vector<LegalArg> args, Type type) {
  return make_call(target, std::move(args), {std::move(type)})[0];
}

Match Legal::call(std::string_view target, std::vector<LegalArg> args, std::vector<Type> extra) {
  std::vector<Type> types;
  for (const ValueId v : node_.outputs) types.push_back(graph_.type(v));
  types.insert(types.end(), std::make_move_iterator(extra.begin()), std::make_move_iterator(extra.end()));
  std::vector<ValueId> out = make_call(target, std::move(args), types);
  out.resize(node_.outputs.size());
  return results(out);
}

Match Legal::computed_in(DType wide) {
  const DType narrow = dtype(in());
  std::vector<ValueId> inputs = node_.inputs;
  for (ValueId& v : inputs)
    if (v.valid() && dtype(v) == narrow) v = to(v, wide);
  std::vector<ValueId> out = patch.add_all(op(), std::move(inputs), node_.attrs);
  out.resize(node_.outputs.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = to(out[i], out_type(i).dtype);
  return results(out);
}

Match Legal::unsupported(std::string_view reason) { return sixfold::unsupported(reason); }

}  // namespace sixfold
