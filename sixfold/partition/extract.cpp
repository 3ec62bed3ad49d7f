#include <algorithm>
#include <map>

#include "sixfold/partition/partition.h"

namespace sixfold {
namespace {

// Copies nodes of one graph into another, values by need.
class Copier {
 public:
  Copier(const Graph& from, Graph& to) : from_(from), to_(to) { to.symbols = from.symbols; }

  ValueId known(ValueId v) const {
    const auto it = values_.find(v);
    return it == values_.end() ? kNoValue : it->second;
  }
  void bind(ValueId old_value, ValueId new_value) {
    values_[old_value] = new_value;
    Value& to = to_.value(new_value);
    const Value& value = from_.value(old_value);
    to.name = value.name;
    to.encoding = value.encoding;
  }
  // Constants and stored weights come along as they are needed.
  ValueId operand(ValueId v) {
    if (!v.valid()) return v;
    if (const ValueId k = known(v); k.valid()) return k;
    const Value& value = from_.value(v);
    if (value.kind == ValueKind::constant)
      bind(v, to_.add_constant(value.name, value.constant));
    else if (value.kind == ValueKind::node && is_stored_weight(from_, from_.node(value.producer)))
      node(from_.node(value.producer));
    return known(v);
  }
  NodeId node(const Node& n) {
    std::vector<ValueId> inputs;
    for (const ValueId v : n.inputs) inputs.push_back(operand(v));
    std::vector<Type> types;
    for (const ValueId v : n.outputs) types.push_back(from_.type(v));
    const NodeId id = to_.add_node(n.op, n.target, std::move(inputs), n.attrs, types, origin(n.origin));
    for (size_t i = 0; i < n.outputs.size(); ++i) bind(n.outputs[i], to_.node(id).outputs[i]);
    return id;
  }
  // v, whose encoding the device would have rounded it to, rounded by the CPU.
  void round(ValueId v) {
    const Value& value = from_.value(v);
    if (!value.encoding || value.encoding->axis >= 0 || value.type.dtype != DType::f32) return;
    const Encoding& e = *value.encoding;
    const int32_t zero = e.zero_points.empty() ? 0 : e.zero_points[0];
    const ValueId x = known(v), scale = to_.add_constant("", Tensor::scalar(double{e.scales[0]}, DType::f64)),
                  zero_point = to_.add_constant("", Tensor::scalar(int64_t{zero}, DType::i32));
    Type integers = value.type;
    integers.dtype = DType::i32;
    const auto add = [&](Op op, ValueId of, const Type& type) {
      Attrs attrs{{"block", value.type.dims},
                  {"quant_min", Dim(e.quant_min)},
                  {"quant_max", Dim(e.quant_max)},
                  {"dtype", type.dtype}};
      const uint32_t at = value.kind == ValueKind::node ? origin(from_.node(value.producer).origin) : 0;
      return to_.node(to_.add_node(op, "", {of, scale, zero_point}, std::move(attrs), {type}, at)).output();
    };
    bind(v, add(Op::dequantize, add(Op::quantize, x, integers), value.type));
  }
  uint32_t origin(uint32_t old_origin) {
    const auto [it, fresh] = origins_.try_emplace(old_origin, 0);
    if (fresh) {
      to_.origins.push_back(from_.origins[old_origin]);
      it->second = static_cast<uint32_t>(to_.origins.size() - 1);
    }
    return it->second;
  }

 private:
  const Graph& from_;
  Graph& to_;
  std::map<ValueId, ValueId> values_;
  std::map<uint32_t, uint32_t> origins_;
};

}  // namespace

Extract extract(const Graph& graph, const std::vector<NodeId>& nodes) {
  Extract out;
  Copier copier(graph, out.graph);
  const std::set<NodeId> inside(nodes.begin(), nodes.end());
  for (const NodeId id : nodes)
    for (const ValueId v : graph.node(id).inputs) {
      if (!v.valid() || copier.known(v).valid()) continue;
      const Value& value = graph.value(v);
      if (value.kind == ValueKind::constant) continue;
      if (value.kind == ValueKind::node &&
          (inside.contains(value.producer) || is_stored_weight(graph, graph.node(value.producer))))
        continue;
      const ValueId input = out.graph.add_input(value.name, value.type);
      copier.bind(v, input);
      out.graph.inputs.push_back({value.name, input, {}});
      out.inputs.push_back(v);
    }
  for (const NodeId id : nodes) copier.node(graph.node(id));
  std::set<ValueId> read;
  for (const Leaf& leaf : graph.outputs) read.insert(leaf.value);
  for (const Graph::Mutation& m : graph.mutations) read.insert(m.next);
  for (const NodeId id : nodes)
    for (const ValueId v : graph.node(id).outputs) {
      const auto& users = graph.value(v).users;
      const bool outside =
          std::any_of(users.begin(), users.end(), [&](NodeId u) { return !inside.contains(u); });
      if (!outside && !read.contains(v)) continue;
      out.graph.outputs.push_back({graph.value(v).name, copier.known(v), {}});
      out.outputs.push_back(v);
    }
  return out;
}

Result<Cut> cut(const Graph& graph, const Partition& partition, bool rounds) {
  Cut out;
  Copier copier(graph, out.host);
  std::map<NodeId, size_t> island_of;
  for (size_t i = 0; i < partition.islands.size(); ++i) {
    for (const NodeId id : partition.islands[i]) island_of[id] = i;
    out.islands.push_back(extract(graph, partition.islands[i]));
  }
  const auto place = [&](const Value& v, ValueId made) {
    copier.bind(v.id, made);
    return made;
  };
  for (const Leaf& leaf : graph.inputs) {
    Leaf copy = leaf;
    if (leaf.value.valid()) {
      const Value& v = graph.value(leaf.value);
      if (!copier.known(v.id).valid()) place(v, out.host.add_input(v.name, v.type));
      copy.value = copier.known(v.id);
    }
    out.host.inputs.push_back(std::move(copy));
  }
  for (const Value& v : graph.values())
    if (v.kind == ValueKind::state && graph.is_used(v.id)) place(v, out.host.add_state(v.name, v.constant));

  if (rounds)
    for (const Leaf& leaf : graph.inputs) {
      if (!leaf.value.valid()) continue;
      const auto& users = graph.value(leaf.value).users;
      if (std::any_of(users.begin(), users.end(), [&](NodeId u) { return !island_of.contains(u); }))
        copier.round(leaf.value);
    }

  // Units are islands and single nodes; a unit goes when all it reads is there.
  const std::vector<NodeId> order = graph.order();
  std::vector<bool> done(out.islands.size(), false);
  const auto ready = [&](const std::vector<ValueId>& values) {
    return std::all_of(values.begin(), values.end(), [&](ValueId v) {
      if (!v.valid() || graph.value(v).kind == ValueKind::constant || copier.known(v).valid()) return true;
      const Node* producer = graph.producer(v);
      return producer && is_stored_weight(graph, *producer);
    });
  };
  std::vector<NodeId> waiting = order;
  while (!waiting.empty()) {
    std::vector<NodeId> later;
    for (const NodeId id : waiting) {
      const Node& node = graph.node(id);
      if (is_stored_weight(graph, node)) continue;  // copied when somebody reads it
      const auto it = island_of.find(id);
      if (it == island_of.end()) {
        if (!ready(node.inputs)) {
          later.push_back(id);
          continue;
        }
        copier.node(node);
        if (rounds && !is_view(node))
          for (const ValueId v : node.outputs) copier.round(v);
        continue;
      }
      const Extract& island = out.islands[it->second];
      if (done[it->second]) continue;
      if (!ready(island.inputs)) {
        later.push_back(id);
        continue;
      }
      done[it->second] = true;
      std::vector<ValueId> inputs;
      for (const ValueId v : island.inputs) inputs.push_back(copier.operand(v));
      std::vector<Type> types;
      for (const ValueId v : island.outputs) types.push_back(graph.type(v));
      const NodeId made = out.host.add_node(Op::call, kDelegateTarget, std::move(inputs),
                                            {{"index", Dim(static_cast<int64_t>(it->second))}}, types,
                                            copier.origin(node.origin));
      for (size_t i = 0; i < island.outputs.size(); ++i)
        copier.bind(island.outputs[i], out.host.node(made).outputs[i]);
    }
    if (later.size() == waiting.size())
      return fail(Code::Internal, "the islands form a cycle with the nodes between them");
    waiting = std::move(later);
  }
  for (const Leaf& leaf : graph.outputs) {
    Leaf copy = leaf;
    if (leaf.value.valid()) copy.value = copier.operand(leaf.value);
    out.host.outputs.push_back(std::move(copy));
  }
  for (const Graph::Mutation& m : graph.mutations)
    out.host.mutations.push_back({copier.operand(m.state), copier.operand(m.next)});
  return out;
}

}  // namespace sixfold
