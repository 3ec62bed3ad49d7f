#include "sixfold/engine/engine.h"

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

Result<FlatProgram> to_program(const Graph& graph, std::vector<ValueId>* values) {
  FlatProgram program;
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
  if (values) {
    values->assign(program.values.size(), kNoValue);
    for (uint32_t i = 0; i < slots.size(); ++i)
      if (slots[i] != kNoSlot) (*values)[slots[i]] = ValueId{i};
  }
  return program;
}

}  // namespace sixfold
