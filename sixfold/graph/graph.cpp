#include "sixfold/graph/graph.h"

#include <algorithm>

namespace sixfold {

ValueId Graph::add_input(std::string name, Type type) {
  const ValueId id{static_cast<uint32_t>(values_.size())};
  values_.push_back(
      Value{.id = id, .name = std::move(name), .type = std::move(type), .kind = ValueKind::input});
  return id;
}

ValueId Graph::add_constant(std::string name, Tensor data) {
  const ValueId id = add_input(std::move(name), Type{data.dtype, to_dims(data.shape)});
  value(id).kind = ValueKind::constant;
  value(id).constant = std::move(data);
  return id;
}

ValueId Graph::add_state(std::string name, Tensor initial) {
  const ValueId id = add_constant(std::move(name), std::move(initial));
  value(id).kind = ValueKind::state;
  return id;
}

const Type& Graph::type(ValueId id) const {
  static const Type absent;
  return id.valid() ? values_[id.index].type : absent;
}

const Tensor* Graph::constant(ValueId id) const {
  return id.valid() && value(id).kind == ValueKind::constant ? &value(id).constant : nullptr;
}

const Node* Graph::producer(ValueId id) const {
  return id.valid() && value(id).kind == ValueKind::node ? &node(value(id).producer) : nullptr;
}

NodeId Graph::add_node(Op op, std::string target, std::vector<ValueId> inputs, Attrs attrs,
                       const std::vector<Type>& output_types, uint32_t origin, NodeId before) {
  const NodeId id{static_cast<uint32_t>(nodes_.size())};
  nodes_.push_back(Slot{});
  Slot& slot = nodes_.back();
  slot.node.id = id;
  slot.node.op = op;
  slot.node.target = std::move(target);
  slot.node.attrs = std::move(attrs);
  slot.node.origin = origin;
  for (const ValueId input : inputs)
    if (input.valid()) value(input).users.push_back(id);
  slot.node.inputs = std::move(inputs);
  for (size_t i = 0; i < output_types.size(); ++i) {
    const ValueId out{static_cast<uint32_t>(values_.size())};
    values_.push_back(Value{.id = out,
                            .name = {},
                            .type = output_types[i],
                            .kind = ValueKind::node,
                            .producer = id,
                            .output_index = static_cast<uint32_t>(i)});
    slot.node.outputs.push_back(out);
  }
  slot.next = before;
  slot.prev = before.valid() ? nodes_[before.index].prev : last_;
  (slot.prev.valid() ? nodes_[slot.prev.index].next : first_) = id;
  (before.valid() ? nodes_[before.index].prev : last_) = id;
  ++alive_nodes_;
  return id;
}

std::vector<NodeId> Graph::order() const {
  std::vector<NodeId> out;
  out.reserve(alive_nodes_);
  for (NodeId id = first_; id.valid(); id = next(id)) out.push_back(id);
  return out;
}

namespace {

void drop_one(std::vector<NodeId>& users, NodeId node) {
  const auto it = std::find(users.begin(), users.end(), node);
  if (it == users.end()) return;
  *it = users.back();
  users.pop_back();
}

}  // namespace

void Graph::set_input(NodeId id, size_t i, ValueId new_value) {
  Node& n = node(id);
  if (n.inputs[i].valid()) drop_one(value(n.inputs[i]).users, id);
  n.inputs[i] = new_value;
  if (new_value.valid()) value(new_value).users.push_back(id);
}

void Graph::replace_uses(ValueId old_value, ValueId new_value) {
  const std::vector<NodeId> users = value(old_value).users;
  for (const NodeId user : users)
    for (size_t i = 0; i < node(user).inputs.size(); ++i)
      if (node(user).inputs[i] == old_value) set_input(user, i, new_value);
  for (Leaf& leaf : outputs)
    if (leaf.value == old_value) leaf.value = new_value;
  for (Mutation& m : mutations)
    if (m.next == old_value) m.next = new_value;
}

void Graph::remove(NodeId id) {
  Slot& slot = nodes_[id.index];
  assert(slot.node.alive);
  for (const ValueId input : slot.node.inputs)
    if (input.valid()) drop_one(value(input).users, id);
  (slot.prev.valid() ? nodes_[slot.prev.index].next : first_) = slot.next;
  (slot.next.valid() ? nodes_[slot.next.index].prev : last_) = slot.prev;
  slot.node.alive = false;
  slot.node.inputs.clear();
  --alive_nodes_;
}

bool Graph::is_used(ValueId id) const {
  if (!value(id).users.empty()) return true;
  return std::any_of(outputs.begin(), outputs.end(), [&](const Leaf& l) { return l.value == id; }) ||
         std::any_of(mutations.begin(), mutations.end(), [&](const Mutation& m) { return m.next == id; });
}

size_t Graph::remove_dead() {
  std::vector<bool> kept(values_.size(), false);
  for (const Leaf& leaf : outputs)
    if (leaf.value.valid()) kept[leaf.value.index] = true;
  for (const Mutation& m : mutations) kept[m.next.index] = true;
  size_t removed = 0;
  for (NodeId id = last_; id.valid();) {
    const NodeId before = prev(id);
    const Node& n = node(id);
    const bool used = std::any_of(n.outputs.begin(), n.outputs.end(),
                                  [&](ValueId v) { return kept[v.index] || !value(v).users.empty(); });
    if (!used) {
      remove(id);
      ++removed;
    }
    id = before;
  }
  // Data that nobody reads any more is let go.
  for (Value& v : values_)
    if (v.kind == ValueKind::constant && v.users.empty() && !kept[v.id.index]) v.constant.owner.reset();
  return removed;
}

std::string describe(const Graph& graph, const Node& node) {
  const Origin& origin = graph.origin(node);
  std::string out = cat("node ", origin.name.empty() ? cat("#", node.id.index) : origin.name, " (",
                        node.op == Op::call ? node.target : std::string(to_text(node.op)));
  if (node.op != Op::call && !origin.target.empty()) out += cat(" of ", origin.target);
  out += ")";
  if (!origin.source.empty()) out += cat(" at ", origin.source);
  return out;
}

void specialize(Graph& graph, const Bindings& bindings) {
  if (bindings.empty()) return;
  const auto substitute = [&](Dims& dims) {
    for (Dim& d : dims) d = d.substitute(bindings);
  };
  for (uint32_t i = 0; i < graph.value_count(); ++i) substitute(graph.value(ValueId{i}).type.dims);
  const auto substitute_attr = [&](Attr& attr) {
    if (Dim* d = std::get_if<Dim>(&attr)) *d = d->substitute(bindings);
    if (Dims* ds = std::get_if<Dims>(&attr)) substitute(*ds);
  };
  for (const NodeId id : graph.order())
    for (auto& [name, attr] : graph.node(id).attrs) substitute_attr(attr);
  for (Leaf& leaf : graph.outputs) substitute_attr(leaf.literal);
}

}  // namespace sixfold
