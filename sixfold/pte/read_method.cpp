#include "sixfold/pte/read_method.h"

#include <utility>

#include "sixfold/pte/scalar_type.h"

namespace sixfold::pte {
namespace {

using flatbuffers::Offset;
using flatbuffers::Vector;

Status read_tensor(const wire::Tensor& from, Budget& budget, Tensor& to) {
  SF_ASSIGN(to.dtype, dtype_of(from.scalar_type()));
  SF_TRY(budget.copy(from.sizes(), to.sizes));
  SF_TRY(budget.copy(from.dim_order(), to.dim_order));
  if (from.storage_offset() != 0)
    return unsupported("storage offset ", from.storage_offset(), " is not supported, expected 0");
  if (from.layout() != 0)
    return unsupported("layout ", from.layout(), " is not supported, expected 0 (strided)");
  if (from.dynamism() < 0 || from.dynamism() > 2)
    return invalid_model("shape dynamism ", from.dynamism(), " is unknown, expected 0, 1 or 2");
  to.dynamism = static_cast<Dynamism>(from.dynamism());
  to.data_index = from.data_index();
  if (const wire::Allocation* at = from.allocation())
    to.allocation = {at->memory_id(), uint64_t{at->offset_high()} << 32 | at->offset_low()};
  if (const wire::TensorExtra* extra = from.extra()) {
    if (extra->mutable_segment() != 0)
      return unsupported("mutable data segment ", extra->mutable_segment(), " is not supported, expected 0");
    if (extra->device_type() != 0 || extra->device_index() > 0)
      return unsupported("device type ", extra->device_type(), ", index ", extra->device_index(),
                         " is not supported, expected 0 (CPU)");
    if (extra->location() < 0 || extra->location() > 1)
      return invalid_model("data location ", extra->location(), " is unknown, expected 0 or 1");
    to.location = static_cast<Location>(extra->location());
    SF_TRY(budget.copy(extra->name(), to.name));
  }
  return ok_status();
}

Status read_list(const Vector<int32_t>* items, bool optional, Budget& budget, Value& to) {
  TensorList list{.optional = optional};
  SF_TRY(budget.copy(items, list.items));
  to = std::move(list);
  return ok_status();
}

Status read_value(const wire::Value& from, Budget& budget, Value& to) {
  if (from.any_type() != wire::AnyValue::NONE && !from.any())
    return invalid_model("the value has no content");
  switch (from.any_type()) {
    case wire::AnyValue::Null:
      to = None{};
      return ok_status();
    case wire::AnyValue::Int:
      to = from.any_as_Int()->value();
      return ok_status();
    case wire::AnyValue::Bool:
      to = from.any_as_Bool()->value();
      return ok_status();
    case wire::AnyValue::Double:
      to = from.any_as_Double()->value();
      return ok_status();
    case wire::AnyValue::Tensor:
      return read_tensor(*from.any_as_Tensor(), budget, to.emplace<Tensor>());
    case wire::AnyValue::String:
      return budget.copy(from.any_as_String()->value(), to.emplace<std::string>());
    case wire::AnyValue::IntList:
      return budget.copy(from.any_as_IntList()->items(), to.emplace<IntList>().items);
    case wire::AnyValue::DoubleList:
      return budget.copy(from.any_as_DoubleList()->items(), to.emplace<std::vector<double>>());
    case wire::AnyValue::BoolList: {
      std::vector<uint8_t> items;
      SF_TRY(budget.copy(from.any_as_BoolList()->items(), items));
      auto& list = to.emplace<std::vector<bool>>();
      for (const uint8_t item : items) list.push_back(item != 0);
      return ok_status();
    }
    case wire::AnyValue::TensorList:
      return read_list(from.any_as_TensorList()->items(), /*optional=*/false, budget, to);
    case wire::AnyValue::OptionalTensorList:
      return read_list(from.any_as_OptionalTensorList()->items(), /*optional=*/true, budget, to);
    case wire::AnyValue::NONE:
      break;
  }
  return invalid_model("its kind ", static_cast<int>(from.any_type()), " is unknown, expected 1 to 11");
}

Result<uint32_t> not_negative(int32_t index, std::string_view what) {
  if (index < 0) return invalid_model("its ", what, " is ", index, ", which is negative");
  return static_cast<uint32_t>(index);
}

Status read_instruction(const wire::Instruction& from, Budget& budget, Instruction& to) {
  if (from.any_type() != wire::AnyInstruction::NONE && !from.any())
    return invalid_model("the instruction has no content");
  switch (from.any_type()) {
    case wire::AnyInstruction::KernelCall: {
      auto& call = to.emplace<KernelCall>();
      SF_ASSIGN(call.operator_index, not_negative(from.any_as_KernelCall()->operator_index(), "operator"));
      return budget.copy(from.any_as_KernelCall()->args(), call.args);
    }
    case wire::AnyInstruction::DelegateCall: {
      auto& call = to.emplace<DelegateCall>();
      SF_ASSIGN(call.delegate_index, not_negative(from.any_as_DelegateCall()->delegate_index(), "delegate"));
      return budget.copy(from.any_as_DelegateCall()->args(), call.args);
    }
    case wire::AnyInstruction::Move:
      to = Move{from.any_as_Move()->from(), from.any_as_Move()->to()};
      return ok_status();
    case wire::AnyInstruction::JumpFalse: {
      auto& jump = to.emplace<JumpFalse>();
      jump.condition = from.any_as_JumpFalse()->condition();
      SF_ASSIGN(jump.destination, not_negative(from.any_as_JumpFalse()->destination(), "destination"));
      return ok_status();
    }
    case wire::AnyInstruction::Free:
      to = Free{from.any_as_Free()->value()};
      return ok_status();
    case wire::AnyInstruction::NONE:
      break;
  }
  return invalid_model("its kind ", static_cast<int>(from.any_type()), " is unknown, expected 1 to 5");
}

Status read_delegate(const wire::Delegate& from, ProgramBytes& bytes, Budget& budget, Delegate& to) {
  SF_TRY(budget.copy(from.id(), to.id));
  const wire::DataReference* where = from.processed();
  if (!where) return invalid_model("it has no data");
  if (where->location() == 1) {
    SF_ASSIGN(to.blob, bytes.segment(where->index(), "delegate"));
  } else if (where->location() == 0) {
    if (where->index() >= count(bytes.inline_delegates))
      return invalid_model("its data is blob ", where->index(), ", the program has ",
                           count(bytes.inline_delegates));
    to.blob = bytes_of(bytes.inline_delegates->Get(where->index())->data());
    to.inlined = true;
  } else {
    return invalid_model("its data has location ", where->location(), ", expected 0 or 1");
  }
  for (size_t i = 0; i < count(from.specs()); ++i) {
    const wire::CompileSpec* spec = from.specs()->Get(static_cast<uint32_t>(i));
    SF_TRY(budget.take(sizeof(CompileSpec)));
    CompileSpec& out = to.specs.emplace_back();
    SF_TRY(budget.copy(spec->key(), out.key));
    out.value = bytes_of(spec->value());
  }
  return ok_status();
}

// Counts what methods have together.
struct Totals {
  size_t values = 0, instructions = 0, delegates = 0;
};

Status add(size_t& total, size_t more, size_t limit, std::string_view what) {
  total += more;
  if (total <= limit) return ok_status();
  return invalid_model("the program has ", total, " ", what, " or more, the limit is ", limit);
}

Status read_chain(const wire::Chain& from, size_t chain, const Limits& limits, Budget& budget, Totals& totals,
                  std::vector<Instruction>& to) {
  const size_t n = count(from.instructions());
  SF_TRY(add(totals.instructions, n, limits.instructions, "instructions"));
  to.resize(n);
  for (size_t i = 0; i < n; ++i) {
    Status status = read_instruction(*from.instructions()->Get(static_cast<uint32_t>(i)), budget, to[i]);
    if (!status.ok()) return status.take_error().during(cat("reading instruction ", i, " of chain ", chain));
  }
  return ok_status();
}

// Who needs the value: ": this build has no kernel aten::_fft_r2c.out for it", of the first call that takes
// it.
std::string user_of(const wire::Method& method, size_t value) {
  for (size_t c = 0; c < count(method.chains()); ++c) {
    const auto* instructions = method.chains()->Get(static_cast<uint32_t>(c))->instructions();
    for (size_t i = 0; i < count(instructions); ++i) {
      const wire::KernelCall* call = instructions->Get(static_cast<uint32_t>(i))->any_as_KernelCall();
      if (!call) continue;
      for (size_t a = 0; a < count(call->args()); ++a) {
        const auto index = static_cast<uint32_t>(call->operator_index());
        if (call->args()->Get(static_cast<uint32_t>(a)) != static_cast<int64_t>(value) ||
            index >= count(method.operators()))
          continue;
        const wire::Operator* op = method.operators()->Get(index);
        if (!op->name() || op->name()->size() > 100) return "";
        const std::string overload = op->overload() ? op->overload()->str().substr(0, 100) : "";
        return cat(": this build has no kernel ", op->name()->str(), overload.empty() ? "" : ".", overload,
                   " for it");
      }
    }
  }
  return "";
}

Status read_method(const wire::Method& from, ProgramBytes& bytes, const Limits& limits, Budget& budget,
                   Totals& totals, Method& to) {
  if (const wire::Structure* structure = from.structure()) {
    SF_TRY(budget.copy(structure->inputs(), to.input_structure));
    SF_TRY(budget.copy(structure->outputs(), to.output_structure));
  }
  const size_t values = count(from.values());
  SF_TRY(add(totals.values, values, limits.values, "values"));
  to.values.resize(values);
  for (size_t i = 0; i < values; ++i) {
    Status status = read_value(*from.values()->Get(static_cast<uint32_t>(i)), budget, to.values[i]);
    if (!status.ok()) {
      Error error = status.take_error();
      if (error.code() == Code::Unsupported) error = Error(error.code(), error.message() + user_of(from, i));
      return std::move(error).during(cat("reading value ", i));
    }
  }
  SF_TRY(budget.copy(from.inputs(), to.inputs));
  SF_TRY(budget.copy(from.outputs(), to.outputs));
  for (size_t i = 0; i < count(from.operators()); ++i) {
    const wire::Operator* op = from.operators()->Get(static_cast<uint32_t>(i));
    SF_TRY(budget.take(sizeof(Operator)));
    Operator& out = to.operators.emplace_back();
    SF_TRY(budget.copy(op->name(), out.name));
    SF_TRY(budget.copy(op->overload(), out.overload));
  }
  const size_t delegates = count(from.delegates());
  SF_TRY(add(totals.delegates, delegates, limits.delegates, "delegates"));
  to.delegates.resize(delegates);
  for (size_t i = 0; i < delegates; ++i) {
    Status status =
        read_delegate(*from.delegates()->Get(static_cast<uint32_t>(i)), bytes, budget, to.delegates[i]);
    if (!status.ok()) return status.take_error().during(cat("reading delegate ", i));
  }
  for (size_t i = 0; i < count(from.chains()); ++i) {
    SF_TRY(budget.take(sizeof(std::vector<Instruction>)));
    SF_TRY(read_chain(*from.chains()->Get(static_cast<uint32_t>(i)), i, limits, budget, totals,
                      to.chains.emplace_back()));
  }
  SF_TRY(budget.copy(from.buffer_sizes(), to.buffer_sizes));
  for (size_t i = 0; i < count(from.buffer_devices()); ++i) {
    const wire::BufferDevice* device = from.buffer_devices()->Get(static_cast<uint32_t>(i));
    if (device->device_type() != 0)
      return unsupported("buffer ", device->buffer(), " is on device type ", device->device_type(),
                         ", expected 0 (CPU)");
  }
  return ok_status();
}

}  // namespace

Status read_methods(const wire::Program& root, ProgramBytes& bytes, const Limits& limits, Budget& budget,
                    Program& program) {
  const size_t n = count(root.methods());
  if (n > limits.methods)
    return invalid_model("the program has ", n, " methods, the limit is ", limits.methods);
  program.methods.resize(n);
  Totals totals;
  for (size_t i = 0; i < n; ++i) {
    const wire::Method* method = root.methods()->Get(static_cast<uint32_t>(i));
    SF_TRY(budget.copy(method->name(), program.methods[i].name));
    Status status = read_method(*method, bytes, limits, budget, totals, program.methods[i]);
    if (!status.ok()) return status.take_error().during(cat("reading method ", i));
  }
  return ok_status();
}

}  // namespace sixfold::pte
