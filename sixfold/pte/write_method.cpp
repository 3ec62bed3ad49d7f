#include "sixfold/pte/write_method.h"

#include <type_traits>
#include <vector>

#include "sixfold/pte/scalar_type.h"

namespace sixfold::pte {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

Offset<wire::Tensor> write_tensor(FlatBufferBuilder& builder, const Tensor& tensor) {
  const auto sizes = builder.CreateVector(tensor.sizes);
  const auto dim_order = builder.CreateVector(tensor.dim_order);
  Offset<wire::Allocation> allocation;
  if (tensor.allocation)
    allocation = wire::CreateAllocation(builder, tensor.allocation->memory_id,
                                        static_cast<uint32_t>(tensor.allocation->offset),
                                        static_cast<uint32_t>(tensor.allocation->offset >> 32));
  Offset<wire::TensorExtra> extra;
  if (!tensor.name.empty() || tensor.location != Location::segment)
    extra = wire::CreateTensorExtra(builder, /*mutable_segment=*/0, builder.CreateString(tensor.name),
                                    static_cast<int8_t>(tensor.location));
  return wire::CreateTensor(builder, scalar_type_of(tensor.dtype), /*storage_offset=*/0, sizes, dim_order,
                            /*requires_grad=*/false, tensor.data_index, allocation, /*layout=*/0,
                            static_cast<int8_t>(tensor.dynamism), extra);
}

struct ValueWriter {
  FlatBufferBuilder& builder;

  template <typename T>
  Offset<wire::Value> wrap(wire::AnyValue kind, Offset<T> offset) {
    return wire::CreateValue(builder, kind, offset.Union());
  }
  Offset<wire::Value> operator()(const None&) {
    return wrap(wire::AnyValue::Null, wire::CreateNull(builder));
  }
  Offset<wire::Value> operator()(int64_t value) {
    return wrap(wire::AnyValue::Int, wire::CreateInt(builder, value));
  }
  Offset<wire::Value> operator()(bool value) {
    return wrap(wire::AnyValue::Bool, wire::CreateBool(builder, value));
  }
  Offset<wire::Value> operator()(double value) {
    return wrap(wire::AnyValue::Double, wire::CreateDouble(builder, value));
  }
  Offset<wire::Value> operator()(const Tensor& tensor) {
    return wrap(wire::AnyValue::Tensor, write_tensor(builder, tensor));
  }
  Offset<wire::Value> operator()(const std::string& text) {
    return wrap(wire::AnyValue::String, wire::CreateString(builder, builder.CreateString(text)));
  }
  Offset<wire::Value> operator()(const IntList& list) {
    return wrap(wire::AnyValue::IntList, wire::CreateIntList(builder, builder.CreateVector(list.items)));
  }
  Offset<wire::Value> operator()(const std::vector<double>& list) {
    return wrap(wire::AnyValue::DoubleList, wire::CreateDoubleList(builder, builder.CreateVector(list)));
  }
  Offset<wire::Value> operator()(const std::vector<bool>& list) {
    return wrap(wire::AnyValue::BoolList, wire::CreateBoolList(builder, builder.CreateVector(list)));
  }
  Offset<wire::Value> operator()(const TensorList& list) {
    const auto items = builder.CreateVector(list.items);
    if (list.optional)
      return wrap(wire::AnyValue::OptionalTensorList, wire::CreateOptionalTensorList(builder, items));
    return wrap(wire::AnyValue::TensorList, wire::CreateTensorList(builder, items));
  }
};

struct InstructionWriter {
  FlatBufferBuilder& builder;

  template <typename T>
  Offset<wire::Instruction> wrap(wire::AnyInstruction kind, Offset<T> offset) {
    return wire::CreateInstruction(builder, kind, offset.Union());
  }
  Offset<wire::Instruction> operator()(const KernelCall& call) {
    return wrap(wire::AnyInstruction::KernelCall,
                wire::CreateKernelCall(builder, static_cast<int32_t>(call.operator_index),
                                       builder.CreateVector(call.args)));
  }
  Offset<wire::Instruction> operator()(const DelegateCall& call) {
    return wrap(wire::AnyInstruction::DelegateCall,
                wire::CreateDelegateCall(builder, static_cast<int32_t>(call.delegate_index),
                                         builder.CreateVector(call.args)));
  }
  Offset<wire::Instruction> operator()(const Move& move) {
    return wrap(wire::AnyInstruction::Move, wire::CreateMove(builder, move.from, move.to));
  }
  Offset<wire::Instruction> operator()(const JumpFalse& jump) {
    return wrap(wire::AnyInstruction::JumpFalse,
                wire::CreateJumpFalse(builder, jump.condition, static_cast<int32_t>(jump.destination)));
  }
  Offset<wire::Instruction> operator()(const Free& free) {
    return wrap(wire::AnyInstruction::Free, wire::CreateFree(builder, free.value));
  }
};

Offset<wire::Delegate> write_delegate(FlatBufferBuilder& builder, const Delegate& delegate,
                                      DelegateData data) {
  std::vector<Offset<wire::CompileSpec>> specs;
  for (const CompileSpec& spec : delegate.specs) {
    const auto key = builder.CreateString(spec.key);
    builder.ForceVectorAlignment(spec.value.size(), 1, 8);  // values are flatbuffers as a rule
    const auto value =
        builder.CreateVector(reinterpret_cast<const uint8_t*>(spec.value.data()), spec.value.size());
    specs.push_back(wire::CreateCompileSpec(builder, key, value));
  }
  const auto id = builder.CreateString(delegate.id);
  const auto where = wire::CreateDataReference(builder, data.inlined ? 0 : 1, data.index);
  return wire::CreateDelegate(builder, id, where, builder.CreateVector(specs));
}

}  // namespace

Result<Offset<wire::Method>> write_method(FlatBufferBuilder& builder, const Method& method,
                                          std::span<const DelegateData> delegate_data) {
  std::vector<Offset<wire::Value>> values;
  for (size_t i = 0; i < method.values.size(); ++i) {
    const auto* tensor = std::get_if<Tensor>(&method.values[i]);
    if (tensor && tensor->dtype == DType::none)
      return invalid_argument("value ", i, " of method ", method.name, " has no dtype");
    values.push_back(std::visit(ValueWriter{builder}, method.values[i]));
  }
  std::vector<Offset<wire::Operator>> operators;
  for (const Operator& op : method.operators) {
    const auto name = builder.CreateString(op.name);
    operators.push_back(wire::CreateOperator(builder, name, builder.CreateString(op.overload)));
  }
  std::vector<Offset<wire::Delegate>> delegates;
  for (size_t i = 0; i < method.delegates.size(); ++i)
    delegates.push_back(write_delegate(builder, method.delegates[i], delegate_data[i]));
  std::vector<Offset<wire::Chain>> chains;
  for (const std::vector<Instruction>& chain : method.chains) {
    std::vector<Offset<wire::Instruction>> instructions;
    for (const Instruction& instruction : chain)
      instructions.push_back(std::visit(InstructionWriter{builder}, instruction));
    const auto none = builder.CreateVector(std::vector<int32_t>());
    const auto none_too = builder.CreateVector(std::vector<int32_t>());
    chains.push_back(wire::CreateChain(builder, none, none_too, builder.CreateVector(instructions)));
  }
  Offset<wire::Structure> structure;
  if (!method.input_structure.empty() || !method.output_structure.empty()) {
    const auto inputs = builder.CreateString(method.input_structure);
    structure = wire::CreateStructure(builder, inputs, builder.CreateString(method.output_structure));
  }
  const auto name = builder.CreateString(method.name);
  const auto values_at = builder.CreateVector(values);
  const auto inputs = builder.CreateVector(method.inputs);
  const auto outputs = builder.CreateVector(method.outputs);
  const auto chains_at = builder.CreateVector(chains);
  const auto operators_at = builder.CreateVector(operators);
  const auto delegates_at = builder.CreateVector(delegates);
  const auto buffer_sizes = builder.CreateVector(method.buffer_sizes);
  return wire::CreateMethod(builder, name, structure, values_at, inputs, outputs, chains_at, operators_at,
                            delegates_at, buffer_sizes);
}

}  // namespace sixfold::pte
