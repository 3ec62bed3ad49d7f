#include <algorithm>
#include <map>

#include "sixfold/ops/cost.h"
#include "sixfold/partition/partition.h"

namespace sixfold {

std::vector<std::vector<NodeId>> gather_islands(const Graph& graph, const std::set<NodeId>& on_device) {
  // level: how many times a path to the node has left the device. Nodes of one level make an island: a path
  // between two of them that left the device would have raised the second.
  std::map<NodeId, int> level;
  std::map<int, std::vector<NodeId>> islands;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (is_stored_weight(graph, node)) continue;
    const bool here = on_device.contains(id);
    int own = here ? 0 : -1;
    for (const ValueId v : node.inputs) {
      const Node* p = v.valid() ? graph.producer(v) : nullptr;
      const auto before = p ? level.find(p->id) : level.end();
      if (before == level.end()) continue;
      // From the CPU back to the device: a new level, if the path has been there before.
      const bool returns = here && !on_device.contains(p->id) && before->second >= 0;
      own = std::max(own, before->second + (returns ? 1 : 0));
    }
    level[id] = own;
    if (here) islands[own].push_back(id);
  }
  std::vector<std::vector<NodeId>> out;
  for (auto& [l, nodes] : islands) out.push_back(std::move(nodes));
  return out;
}

FallbackCost fallback_cost(const Graph& graph, const Partition& partition, const std::vector<NodeId>& nodes) {
  FallbackCost out;
  std::set<NodeId> device, moved;
  for (const auto& island : partition.islands) device.insert(island.begin(), island.end());
  moved = device;
  moved.insert(nodes.begin(), nodes.end());
  out.islands_without = gather_islands(graph, moved).size();
  std::set<ValueId> in, back;
  for (const NodeId id : nodes) {
    const Node& node = graph.node(id);
    const Cost cost = cost_of(graph, node);
    out.macs += cost.macs;
    out.bytes += is_view(node) ? 0 : cost.bytes;
    for (const ValueId v : node.inputs) {
      const Node* p = v.valid() ? graph.producer(v) : nullptr;
      if (p && device.contains(p->id)) in.insert(v);
    }
    for (const ValueId v : node.outputs) {
      const auto& users = graph.value(v).users;
      if (std::any_of(users.begin(), users.end(), [&](NodeId u) { return device.contains(u); }))
        back.insert(v);
    }
  }
  const auto bytes_of = [&](ValueId v) {
    return numel(graph.dims(v)).value_or(0) * static_cast<int64_t>(size_of(graph.dtype(v)));
  };
  for (const ValueId v : in) out.to_cpu_bytes += bytes_of(v);
  for (const ValueId v : back) out.to_device_bytes += bytes_of(v);
  return out;
}

}  // namespace sixfold
