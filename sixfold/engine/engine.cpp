#include "sixfold/engine/engine.h"

#include <cstring>

namespace sixfold {
namespace {

ProgramValue to_value(const Value& v) {
  ProgramValue out;
  out.name = v.name;
  out.dtype = v.type.dtype;
  out.shape = static_shape(v.type.dims);
  switch (v.kind) {
    case ValueKind::input:
      out.kind = ProgramValue::input;
      break;
    case ValueKind::constant:
      out.kind = ProgramValue::constant;
      break;
    case ValueKind::state:
      out.kind = ProgramValue::state;
      break;
    case ValueKind::node:
      out.kind = ProgramValue::temporary;
      break;
  }
  if (v.kind == ValueKind::constant || v.kind == ValueKind::state) out.data = v.constant;
  return out;
}

}  // namespace

Result<Program> to_program(const Graph& graph) {
  Program program;
  std::vector<Slot> slots(graph.value_count(), kNoSlot);
  Status error;
  const auto slot_of = [&](ValueId id) -> Slot {
    if (!id.valid()) return kNoSlot;
    Slot& slot = slots[id.index];
    if (slot != kNoSlot) return slot;
    const Value& v = graph.value(id);
    if (!is_static(v.type.dims)) {
      if (error.ok())
        error =
            unsupported("value ", v.name, " has the symbolic shape ", v.type, ", and running needs numbers");
      return kNoSlot;
    }
    program.values.push_back(to_value(v));
    return slot = static_cast<Slot>(program.values.size() - 1);
  };
  for (const Leaf& leaf : graph.inputs)
    if (leaf.value.valid()) program.inputs.push_back(slot_of(leaf.value));
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op == Op::call) return unsupported(describe(graph, node), " has no canonical form");
    ProgramStep step{node.op, {}, {}, node.attrs, graph.origin(node).name};
    for (const ValueId v : node.inputs) step.inputs.push_back(slot_of(v));
    for (const ValueId v : node.outputs) step.outputs.push_back(slot_of(v));
    program.steps.push_back(std::move(step));
  }
  for (const Leaf& leaf : graph.outputs)
    if (leaf.value.valid()) program.outputs.push_back(slot_of(leaf.value));
  for (const auto& m : graph.mutations) program.mutations.push_back({slot_of(m.state), slot_of(m.next)});
  if (!error.ok()) return error.take_error();
  return program;
}

Result<std::vector<Tensor>> evaluate(Op op, std::span<const Tensor> inputs, const Attrs& attrs) {
  Program program;
  std::vector<Type> types;
  ProgramStep step{op, {}, {}, attrs, std::string(to_text(op))};
  for (const Tensor& t : inputs) {
    types.push_back({t.dtype, to_dims(t.shape)});
    if (t.dtype == DType::none) {
      step.inputs.push_back(kNoSlot);
      continue;
    }
    step.inputs.push_back(static_cast<Slot>(program.values.size()));
    program.values.push_back({ProgramValue::constant, t.dtype, t.shape, t, ""});
  }
  SF_ASSIGN(const std::vector<Type> out_types, infer_types(op, types, attrs));
  for (const Type& t : out_types) {
    if (!is_static(t.dims)) return unsupported("the result ", t, " is symbolic");
    step.outputs.push_back(static_cast<Slot>(program.values.size()));
    program.outputs.push_back(step.outputs.back());
    program.values.push_back({ProgramValue::temporary, t.dtype, static_shape(t.dims), {}, ""});
  }
  program.steps.push_back(std::move(step));
  SF_ASSIGN(Plan plan, make_plan(std::move(program)));
  cpu::Pool pool(1);
  SF_ASSIGN(const std::unique_ptr<Executor> executor, Executor::create(std::move(plan), pool));
  SF_TRY(executor->run({}));
  std::vector<Tensor> results;
  for (size_t i = 0; i < out_types.size(); ++i) {
    std::byte* bytes = nullptr;
    Tensor t = Tensor::allocate(out_types[i].dtype, static_shape(out_types[i].dims), &bytes);
    std::memcpy(bytes, executor->output(i), t.size_bytes());
    results.push_back(std::move(t));
  }
  return results;
}

}  // namespace sixfold
