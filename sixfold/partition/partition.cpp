#include "sixfold/partition/partition.h"

#include "sixfold/graph/unknown.h"
#include "sixfold/lower/limits.h"
#include "sixfold/lower/lowering.h"

namespace sixfold {

Status ask(const Graph& graph, const Node& node, Device& device) {
  SF_TRY(check_limits(graph, node));
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

namespace {

constexpr std::string_view kNoOp = "QNN has no op for ";

// A call that no rule reads: what the model says, not what is wrong with it.
std::string unknown_reason(const Node& node) {
  if (const Attr* why = node.attrs.find(kUnknown))
    if (const auto* text = std::get_if<std::string>(why)) return *text;
  if (node.target.starts_with("aten."))
    return cat(node.target, " has no form that the device or sixfold knows");
  return cat(node.target, " is a custom op, which the device does not know");
}

Status answer(const Graph& graph, const Node& node, Device& device, const PartitionOptions& options) {
  const Origin& origin = graph.origin(node);
  if (options.skip_nodes.contains(origin.name))
    return unsupported("kept on the CPU by --skip-node ", origin.name);
  if (options.skip_ops.contains(origin.target) || options.skip_ops.contains(to_text(node.op)))
    return unsupported("kept on the CPU by --skip-op ",
                       options.skip_ops.contains(origin.target) ? origin.target : cat(node.op));
  if (const auto it = options.denied.find(node.id); it != options.denied.end())
    return unsupported(it->second);
  const auto rule = options.refused.find(node.id);
  if (node.op == Op::call)
    return unsupported(rule == options.refused.end() ? unknown_reason(node) : rule->second);
  Status status = ask(graph, node, device);
  if (status.ok() || status.error().code() != Code::Unsupported) return status;
  const std::string reason = reason_of(status.error());
  if (rule == options.refused.end() || reason.find("[htp.") != reason.npos) return unsupported(reason);
  const bool more = !reason.starts_with(kNoOp) && !rule->second.starts_with(reason);
  return unsupported(rule->second, more ? cat(" (", reason, ")") : "");
}

}  // namespace

bool is_view(const Node& node) { return node.op == Op::reshape; }

Result<Partition> partition(const Graph& graph, Device& device, const PartitionOptions& options) {
  Partition out;
  std::set<NodeId> on_device;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (is_stored_weight(graph, node)) continue;
    Status status = answer(graph, node, device, options);
    if (status.ok())
      on_device.insert(id);
    else if (status.error().code() == Code::Unsupported)
      out.fallbacks.push_back({id, status.error().message()});
    else
      return status.take_error().during(cat("asking the device about ", describe(graph, node)));
  }
  // A part of an island in topological order reaches none before it: cuts make no cycle.
  for (std::vector<NodeId>& island : gather_islands(graph, on_device)) {
    out.islands.emplace_back();
    for (const NodeId id : island) {
      if (options.cuts.contains(id) && !out.islands.back().empty()) out.islands.emplace_back();
      out.islands.back().push_back(id);
    }
  }
  return out;
}

}  // namespace sixfold
