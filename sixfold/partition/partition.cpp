#include "sixfold/partition/partition.h"

#include <algorithm>
#include <map>

#include "sixfold/lower/lowering.h"

namespace sixfold {
Status ask(const Graph& graph, const Node& node, Device& device) {
  const Extract alone = extract(graph, {node.id});
  SF_ASSIGN(const qnn::GraphSpec spec, lower_island(alone.graph, choose_forms(alone.graph), "one"));
  for (const qnn::OpSpec& op : spec.ops) SF_TRY(device.validate(spec, op));
  return {};
}

// "lowering node …" says again what the report says beside it.
std::string reason_of(const Error& error) {
  const std::string& m = error.message();
  return m.substr(0, m.find(" (while lowering "));
}

Result<Partition> partition(const Graph& graph, Device& device, const PartitionOptions& options) {
  Partition out;
  // level: how many times a path to the node has left the device. Nodes of one level make an island: a path
  // between two of them that left the device would have raised the second.
  std::map<NodeId, int> level;
  std::map<int, std::vector<NodeId>> islands;
  std::set<NodeId> device_nodes;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (is_stored_weight(graph, node)) continue;
    const Origin& origin = graph.origin(node);
    Status status;
    if (options.skip_nodes.contains(origin.name))
      status = unsupported("kept on the CPU by --skip-node ", origin.name);
    else if (options.skip_ops.contains(origin.target) || options.skip_ops.contains(to_text(node.op)))
      status = unsupported("kept on the CPU by --skip-op");
    else if (node.op == Op::call)
      status = unsupported(node.target, " is a custom op, which the device does not know");
    else
      status = ask(graph, node, device);
    if (!status.ok() && status.error().code() != Code::Unsupported)
      return status.take_error().during(cat("asking the device about ", describe(graph, node)));
    const bool on_device = status.ok();
    int own = on_device ? 0 : -1;
    for (const ValueId v : node.inputs) {
      const Node* p = v.valid() ? graph.producer(v) : nullptr;
      if (!p || !level.contains(p->id)) continue;
      // From the CPU back to the device: a new level, if the path has been there before.
      const bool returns = on_device && !device_nodes.contains(p->id) && level[p->id] >= 0;
      own = std::max(own, level[p->id] + (returns ? 1 : 0));
    }
    level[id] = own;
    if (on_device) {
      islands[own].push_back(id);
      device_nodes.insert(id);
    } else {
      out.fallbacks.push_back({id, reason_of(status.error())});
    }
  }
  for (auto& [l, nodes] : islands) out.islands.push_back(std::move(nodes));
  return out;
}

}  // namespace sixfold
