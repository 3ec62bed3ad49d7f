#include "sixfold/pte/verify.h"

#include <algorithm>
#include <string>
#include <unordered_set>
#include <vector>

#include "sixfold/base/small_sort.h"
#include "sixfold/base/tensor.h"
#include "sixfold/pte/check.h"
#include "sixfold/pte/header.h"
#include "sixfold/pte/text.h"

namespace sixfold::pte {
namespace {

std::string_view kind_of(const Value& value) {
  constexpr std::string_view kNames[] = {"none",
                                         "an integer",
                                         "a bool",
                                         "a number",
                                         "a tensor",
                                         "a string",
                                         "a list of integers",
                                         "a list of numbers",
                                         "a list of bools",
                                         "a list of tensors"};
  static_assert(std::size(kNames) == std::variant_size_v<Value>);
  return kNames[value.index()];
}

bool is_constant(const Tensor& tensor) {
  return !tensor.allocation && (tensor.data_index != 0 || tensor.location == Location::external);
}

class MethodVerifier {
 public:
  MethodVerifier(const Program& program, const Method& method, const VerifyOptions& options)
      : program_(program), method_(method), options_(options) {}

  Status run() {
    SF_TRY(check_buffers());
    for (size_t i = 0; i < method_.values.size(); ++i) {
      Status status = check_value(i);
      if (!status.ok()) return status.take_error().during(cat("checking value ", i));
    }
    SF_TRY(check_interface());
    SF_TRY(check_tables());
    find_constants();
    for (size_t c = 0; c < method_.chains.size(); ++c) {
      for (size_t i = 0; i < method_.chains[c].size(); ++i) {
        Status status = check_instruction(method_.chains[c], method_.chains[c][i]);
        if (!status.ok()) return status.take_error().during(cat("checking instruction ", i, " of chain ", c));
      }
    }
    return ok_status();
  }

 private:
  Status check_buffers() {
    if (method_.buffer_sizes.empty())
      return invalid_model("it has no buffer sizes, expected at least the reserved one");
    if (method_.buffer_sizes[0] != 0)
      return invalid_model("the reserved buffer 0 has ", method_.buffer_sizes[0], " bytes, expected 0");
    uint64_t total = 0;
    for (size_t i = 0; i < method_.buffer_sizes.size(); ++i) {
      const int64_t size = method_.buffer_sizes[i];
      if (size < 0) return invalid_model("buffer ", i, " has ", size, " bytes");
      if (static_cast<uint64_t>(size) > options_.limits.arena_bytes - total)
        return invalid_model("its buffers up to number ", i, " have ", total, " + ", size,
                             " bytes, the limit is ", options_.limits.arena_bytes);
      total += static_cast<uint64_t>(size);
    }
    return ok_status();
  }

  Result<const Value*> value_at(int64_t index) const {
    if (index < 0 || static_cast<uint64_t>(index) >= method_.values.size())
      return invalid_model("value ", index, " does not exist, the method has ", method_.values.size());
    return &method_.values[static_cast<size_t>(index)];
  }

  // -- values

  Status check_value(size_t index) const {
    const Value& value = method_.values[index];
    if (const auto* tensor = std::get_if<Tensor>(&value)) return check_tensor(*tensor);
    if (const auto* list = std::get_if<IntList>(&value)) {
      for (const int64_t item : list->items) {
        SF_ASSIGN(const Value* found, value_at(item));
        if (!std::holds_alternative<int64_t>(*found))
          return invalid_model("it is a list of integers, but its item value ", item, " is ",
                               kind_of(*found));
      }
    }
    if (const auto* list = std::get_if<TensorList>(&value)) {
      for (const Index item : list->items) {
        if (item == -1 && list->optional) continue;
        if (item >= 0 && static_cast<size_t>(item) >= index)
          return invalid_model("its item value ", item, " does not come before it");
        SF_ASSIGN(const Value* found, value_at(item));
        const bool none = list->optional && std::holds_alternative<None>(*found);
        if (!none && !std::holds_alternative<Tensor>(*found))
          return invalid_model("it is a list of tensors, but its item value ", item, " is ", kind_of(*found));
      }
    }
    return ok_status();
  }

  Status check_tensor(const Tensor& tensor) const {
    SF_ASSIGN(const uint64_t bytes, checked_bytes(tensor.dtype, tensor.sizes, tensor.dim_order));
    if (tensor.dynamism == Dynamism::unbounded)
      return unsupported("its shape has no upper bound, which is not supported");
    if (tensor.location == Location::external && tensor.name.empty())
      return invalid_model("its data is in another file, but it has no name to find it by");
    SF_TRY(check_data(tensor, bytes));
    return check_allocation(tensor, bytes);
  }

  Status check_data(const Tensor& tensor, uint64_t bytes) const {
    if (tensor.data_index == 0 || tensor.location == Location::external) return ok_status();
    const auto& data = tensor.allocation ? program_.mutable_data : program_.constants;
    const std::string_view what = tensor.allocation ? "initial value " : "constant ";
    if (tensor.data_index >= data.size())
      return invalid_model("its data is ", what, tensor.data_index, ", the program has ",
                           data.empty() ? 0 : data.size() - 1);
    const auto found = data[tensor.data_index];
    if (bytes > found.size())
      return invalid_model(what, tensor.data_index, " has ", found.size(),
                           " bytes up to the end of its segment, sizes ", tensor.sizes, " of ",
                           to_text(tensor.dtype), " need ", bytes);
    if (tensor.dtype == DType::boolean) SF_TRY(check_bools(found.first(bytes)));
    // Initial values are copied; constants are used where they are.
    return tensor.allocation ? ok_status() : check_aligned(found, tensor.dtype);
  }

  Status check_allocation(const Tensor& tensor, uint64_t bytes) const {
    if (!tensor.allocation) return ok_status();
    const auto [memory_id, offset] = *tensor.allocation;
    if (memory_id == 0 || memory_id >= method_.buffer_sizes.size())
      return invalid_model("its memory is in buffer ", memory_id, ", the method has buffers 1 to ",
                           method_.buffer_sizes.size() - 1);
    const auto size = static_cast<uint64_t>(method_.buffer_sizes[memory_id]);
    if (!fits(offset, bytes, size))
      return invalid_model("its ", bytes, " bytes at ", offset, " reach past the end of buffer ", memory_id,
                           ", which has ", size);
    if (offset % size_of(tensor.dtype) != 0)
      return invalid_model("its offset ", offset, " is not a multiple of ", size_of(tensor.dtype),
                           ", the size of ", to_text(tensor.dtype));
    return ok_status();
  }

  // -- inputs, outputs, operators, delegates

  Status check_interface() const {
    for (size_t i = 0; i < method_.inputs.size(); ++i) {
      auto found = value_at(method_.inputs[i]);
      if (!found.ok()) return found.take_error().during(cat("checking input ", i));
      if (std::holds_alternative<IntList>(**found) || std::holds_alternative<TensorList>(**found) ||
          std::holds_alternative<std::vector<double>>(**found) ||
          std::holds_alternative<std::vector<bool>>(**found))
        return unsupported("input ", i, " (value ", method_.inputs[i], ") is ", kind_of(**found),
                           ", expected a tensor or a single value");
      const auto* tensor = std::get_if<Tensor>(*found);
      if (tensor && is_constant(*tensor))
        return invalid_model("input ", i, " (value ", method_.inputs[i], ") is a constant");
    }
    for (size_t i = 0; i < method_.outputs.size(); ++i) {
      auto found = value_at(method_.outputs[i]);
      if (!found.ok()) return found.take_error().during(cat("checking output ", i));
    }
    return ok_status();
  }

  Status check_tables() const {
    if (method_.chains.empty()) return invalid_model("it has no chain of instructions, expected at least 1");
    for (size_t i = 0; i < method_.operators.size(); ++i) {
      const std::string name = kernel_name(method_.operators[i]);
      if (method_.operators[i].name.empty()) return invalid_model("operator ", i, " has no name");
      if (name.size() >= kMaxOperatorName)
        return invalid_model("the name of operator ", i, " has ", name.size(), " characters, the limit is ",
                             kMaxOperatorName - 1);
    }
    for (size_t i = 0; i < method_.delegates.size(); ++i)
      if (method_.delegates[i].id.empty()) return invalid_model("delegate ", i, " has no id");
    return ok_status();
  }

  // -- instructions

  const Operator* operator_of(const Instruction& instruction) const {
    const auto* call = std::get_if<KernelCall>(&instruction);
    if (!call || call->operator_index >= method_.operators.size()) return nullptr;
    return &method_.operators[call->operator_index];
  }

  // Re-points its last argument at the data of its first.
  bool is_view(const Instruction& instruction) const {
    const Operator* op = operator_of(instruction);
    return op && op->name == "executorch_prim::et_view";
  }

  // Which values may, at some time, be handles of constant memory: constants, and what they are moved to.
  void find_constants() {
    constant_.resize(method_.values.size());
    for (size_t i = 0; i < constant_.size(); ++i) {
      const auto* tensor = std::get_if<Tensor>(&method_.values[i]);
      constant_[i] = tensor && is_constant(*tensor);
    }
    std::vector<std::pair<Index, Index>> moves;
    const auto exists = [&](Index i) { return i >= 0 && static_cast<size_t>(i) < constant_.size(); };
    for (const auto& chain : method_.chains) {
      for (const Instruction& instruction : chain) {
        if (const auto* move = std::get_if<Move>(&instruction)) moves.emplace_back(move->from, move->to);
        if (is_view(instruction)) {
          const auto& args = std::get<KernelCall>(instruction).args;
          if (!args.empty()) moves.emplace_back(args.front(), args.back());
        }
      }
    }
    std::erase_if(moves, [&](const auto& m) { return !exists(m.first) || !exists(m.second); });
    // Sorted by source, so that each value is looked at once.
    sort_small(moves);
    std::vector<Index> work;
    for (size_t i = 0; i < constant_.size(); ++i)
      if (constant_[i]) work.push_back(static_cast<Index>(i));
    while (!work.empty()) {
      const Index from = work.back();
      work.pop_back();
      for (auto m = std::lower_bound(moves.begin(), moves.end(), std::pair{from, Index{0}});
           m != moves.end() && m->first == from; ++m) {
        if (constant_[static_cast<size_t>(m->second)]) continue;
        constant_[static_cast<size_t>(m->second)] = true;
        work.push_back(m->second);
      }
    }
  }

  Status check_writable(Index index) const {
    const auto refuse = [](Index value) {
      return invalid_model("its result, value ", value,
                           ", is or may become a constant, which cannot be written");
    };
    if (constant_[static_cast<size_t>(index)]) return refuse(index);
    const auto* list = std::get_if<TensorList>(&method_.values[static_cast<size_t>(index)]);
    if (!list) return ok_status();
    for (const Index item : list->items)
      if (item >= 0 && constant_[static_cast<size_t>(item)]) return refuse(item);
    return ok_status();
  }

  Status check_args(const std::vector<Index>& args) const {
    for (size_t i = 0; i < args.size(); ++i) {
      auto found = value_at(args[i]);
      if (!found.ok()) return found.take_error().during(cat("checking argument ", i));
    }
    return ok_status();
  }

  Status check_kernel(const KernelCall& call) const {
    if (call.operator_index >= method_.operators.size())
      return invalid_model("it calls operator ", call.operator_index, ", the method has ",
                           method_.operators.size());
    SF_TRY(check_args(call.args));
    const Operator& op = method_.operators[call.operator_index];
    if (options_.arity) {
      const auto arity = options_.arity(kernel_name(op));
      if (arity && call.args.size() != *arity)
        return invalid_model(quoted(kernel_name(op)), " has ", call.args.size(), " arguments, expected ",
                             *arity);
    }
    if (call.args.empty()) return invalid_model(quoted(kernel_name(op)), " has no arguments");
    if (op.name == "executorch_prim::et_view") return ok_status();
    if (op.name == "executorch_prim::et_copy_index") SF_TRY(check_writable(call.args.front()));
    return check_writable(call.args.back());
  }

  Status check_move(const Move& move) const {
    SF_ASSIGN(const Value* from, value_at(move.from));
    SF_ASSIGN(const Value* to, value_at(move.to));
    if (from->index() != to->index())
      return invalid_model("it moves ", kind_of(*from), " (value ", move.from, ") to ", kind_of(*to),
                           " (value ", move.to, ")");
    const auto *a = std::get_if<Tensor>(from), *b = std::get_if<Tensor>(to);
    if (!a) return ok_status();
    const bool fixed = a->dynamism == Dynamism::fixed && b->dynamism == Dynamism::fixed;
    if (a->dtype != b->dtype || a->sizes.size() != b->sizes.size() || (fixed && a->sizes != b->sizes))
      return invalid_model("it moves ", to_text(a->dtype), " ", a->sizes, " (value ", move.from, ") to ",
                           to_text(b->dtype), " ", b->sizes, " (value ", move.to, ")");
    return ok_status();
  }

  Status check_instruction(const std::vector<Instruction>& chain, const Instruction& instruction) const {
    if (const auto* call = std::get_if<KernelCall>(&instruction)) return check_kernel(*call);
    if (const auto* call = std::get_if<DelegateCall>(&instruction)) {
      if (call->delegate_index >= method_.delegates.size())
        return invalid_model("it calls delegate ", call->delegate_index, ", the method has ",
                             method_.delegates.size());
      return check_args(call->args);
    }
    if (const auto* move = std::get_if<Move>(&instruction)) return check_move(*move);
    if (const auto* jump = std::get_if<JumpFalse>(&instruction)) {
      SF_ASSIGN(const Value* condition, value_at(jump->condition));
      const auto* tensor = std::get_if<Tensor>(condition);
      if (!std::holds_alternative<bool>(*condition) && !(tensor && tensor->dtype == DType::boolean))
        return invalid_model("its condition, value ", jump->condition, ", is ", kind_of(*condition),
                             ", expected a bool or a tensor of bools");
      if (jump->destination > chain.size())
        return invalid_model("it jumps to instruction ", jump->destination, ", the chain has ", chain.size());
      return ok_status();
    }
    const Index freed = std::get<Free>(instruction).value;
    SF_ASSIGN(const Value* value, value_at(freed));
    if (!std::holds_alternative<Tensor>(*value))
      return invalid_model("it frees value ", freed, ", which is ", kind_of(*value), ", expected a tensor");
    return ok_status();
  }

  const Program& program_;
  const Method& method_;
  const VerifyOptions& options_;
  std::vector<bool> constant_;
};

}  // namespace

std::string kernel_name(const Operator& op) {
  return op.overload.empty() ? op.name : cat(op.name, ".", op.overload);
}

Status verify(const Program& program, const VerifyOptions& options) {
  if (program.methods.empty()) return invalid_model("the program has no method");
  std::unordered_set<std::string_view> names;
  for (size_t i = 0; i < program.methods.size(); ++i) {
    const Method& method = program.methods[i];
    if (method.name.empty()) return invalid_model("method ", i, " has no name");
    if (!names.insert(method.name).second)
      return invalid_model("method ", i, " has the name ", quoted(method.name), " of one before it");
    Status status = MethodVerifier(program, method, options).run();
    if (!status.ok()) return status.take_error().during(cat("checking method ", quoted(method.name)));
  }
  std::unordered_set<std::string_view> keys;
  for (size_t i = 0; i < program.named_data.size(); ++i) {
    const std::string& key = program.named_data[i].key;
    if (key.empty()) return invalid_model("named data ", i, " has no key");
    if (!keys.insert(key).second)
      return invalid_model("named data ", i, " has the key ", quoted(key), " of one before it");
  }
  return ok_status();
}

}  // namespace sixfold::pte
