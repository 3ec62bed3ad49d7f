// Planning with reasons: what `audit` and `compile` share.
#include <algorithm>

#include "tools/audit.h"

namespace sixfold::tools {
namespace {

constexpr size_t kMaxTried = 200;  // nodes whose fixes are looked for: a report for people

OfferedFix offer(const TriedFix& tried) {
  OfferedFix out{.name = tried.fix->name, .what = tried.fix->what, .option = "", .exact = tried.fix->exact};
  if (tried.compared) out.difference = tried.difference;
  return out;
}

// Nodes that are equal but for their place in the model need one answer.
std::string kind_of(const Graph& canonical, const CpuNode& n) {
  std::string out = cat(n.op, "|", n.reason, "|");
  for (const NodeId id : canonical.order()) {
    const Node& node = canonical.node(id);
    if (canonical.origin(node).name != n.name) continue;
    out += cat(node.op, ";");
    for (const ValueId v : node.inputs)
      out += v.valid() ? cat(canonical.type(v), canonical.constant(v) ? "c," : ",") : "-,";
    for (const auto& [name, value] : node.attrs) out += cat(name, "=", to_text(value), ",");
  }
  return out;
}

}  // namespace

std::optional<OfferedFix> offer_quantized(const Graph& canonical, const CpuNode& node, Device& device,
                                          const PlanOptions& options) {
  std::vector<NodeId> nodes;
  for (const NodeId id : canonical.order())
    if (canonical.origin(canonical.node(id)).name == node.name) nodes.push_back(id);
  if (nodes.empty()) return {};
  Graph copy = extract(canonical, nodes).graph;
  // Any encodings will do to ask: 8 bits each.
  const Encoding real{
      .storage = DType::u8, .quant_min = 0, .quant_max = 255, .scales = {0.05f}, .zero_points = {128}};
  const Encoding weight{
      .storage = DType::i8, .quant_min = -127, .quant_max = 127, .scales = {0.01f}, .zero_points = {0}};
  const size_t count = copy.value_count();
  for (size_t i = 0; i < count; ++i) {
    Value& v = copy.value(ValueId{static_cast<uint32_t>(i)});
    if (!is_float(v.type.dtype)) continue;
    const bool constant = v.kind == ValueKind::constant;
    if (!constant || v.type.rank() > 1) v.encoding = constant ? weight : real;
  }
  const auto plan = plan_graph(copy, device, options);
  if (!plan.ok() || plan->parts.islands.empty()) return {};
  for (const Fallback& f : plan->parts.fallbacks)
    if (!is_view(plan->graph.node(f.node))) return {};
  return OfferedFix{.name = "quantize",
                    .what = "8-bit integers instead of floats",
                    .option = "--precision 8a8w --calib SAMPLES",
                    .exact = false};
}

std::vector<AuditedNode> audit_nodes(const Graph& canonical, const Plan& plan, Device& device,
                                     const PlanOptions& options) {
  std::vector<AuditedNode> out;
  std::map<std::string, std::optional<OfferedFix>> known;
  for (CpuNode& node : cpu_nodes(canonical, plan)) {
    AuditedNode a{std::move(node), {}, ""};
    const bool skipped = a.node.reason.find("--skip-") != std::string::npos;
    if (!a.node.view && !skipped && known.size() < kMaxTried) {
      const auto [it, fresh] = known.try_emplace(kind_of(canonical, a.node));
      if (fresh)
        if (const TriedFix tried = find_fix_for(canonical, a.node, device, options); tried.fix)
          it->second = offer(tried);
      a.fix = it->second;
    }
    out.push_back(std::move(a));
  }
  return out;
}

Status apply_offered(Graph& canonical, const std::vector<AuditedNode>& nodes, const HtpTarget& target,
                     std::vector<std::string>* notes) {
  for (const AuditedNode& a : nodes) {
    const Fix* fix = a.fix ? find_fix(a.fix->name) : nullptr;
    if (!fix) continue;
    SF_ASSIGN(const size_t matched, apply_fix(canonical, *fix, a.node.name, a.node.ops, target));
    if (matched == 0) continue;
    notes->push_back(cat("fixed ", a.node.name, " (", a.node.op, ") with ", fix->name, ": ", fix->what,
                         a.fix->exact ? ""
                         : a.fix->difference >= 0
                             ? cat("; numbers differ by ", a.fix->difference, " at most on random inputs")
                             : "; numbers change"));
  }
  return drop_round_trips(canonical);
}

Status check_skips(const std::vector<const Graph*>& graphs, const HtpChoice& choice) {
  std::set<std::string, std::less<>> names, ops;
  for (const Graph* graph : graphs) {
    for (const Origin& o : graph->origins) {
      if (!o.name.empty()) names.insert(o.name);
      if (!o.target.empty()) ops.insert(o.target);
    }
    for (const NodeId id : graph->order()) ops.insert(std::string(to_text(graph->node(id).op)));
  }
  for (const std::string& name : choice.skip_nodes)
    if (!names.contains(name))
      return invalid_argument("--skip-node ", name, " names no node of the model; the nearest are ",
                              nearest_names(name, names));
  for (const std::string& op : choice.skip_ops)
    if (!ops.contains(op))
      return invalid_argument("--skip-op ", op, " names no op of the model; the nearest are ",
                              nearest_names(op, ops));
  return {};
}

}  // namespace sixfold::tools
