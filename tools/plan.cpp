#include "tools/plan.h"

#include <algorithm>
#include <cmath>

#include "sixfold/engine/session.h"
#include "sixfold/lower/lowering.h"
#include "sixfold/ops/cost.h"

namespace sixfold::tools {
namespace {

bool moves_only(const Node& node) {
  switch (node.op) {
    case Op::reshape:
    case Op::permute:
    case Op::slice:
    case Op::concat:
    case Op::expand:
    case Op::pad:
    case Op::to:
      return true;
    default:
      return false;
  }
}

// Nodes of the model that rules took apart in vain: some parts that compute stay on the CPU, and no product
// is left on the device.
std::set<std::string, std::less<>> taken_apart_in_vain(const Plan& plan) {
  struct Parts {
    bool rule = false, computes_on_cpu = false;
    int64_t device_macs = 0;
  };
  std::map<std::string, Parts> parts;
  for (const Fallback& f : plan.parts.fallbacks) {
    const Node& node = plan.graph.node(f.node);
    const Origin& origin = plan.graph.origin(node);
    Parts& p = parts[origin.name];
    p.rule = p.rule || origin.rule.starts_with("htp ");
    p.computes_on_cpu = p.computes_on_cpu || !moves_only(node);
  }
  for (const auto& island : plan.parts.islands)
    for (const NodeId id : island) {
      const Node& node = plan.graph.node(id);
      const auto it = parts.find(plan.graph.origin(node).name);
      if (it != parts.end()) it->second.device_macs += cost_of(plan.graph, node).macs;
    }
  std::set<std::string, std::less<>> out;
  for (const auto& [name, p] : parts)
    if (p.rule && p.computes_on_cpu && p.device_macs == 0 && !name.empty()) out.insert(name);
  return out;
}

Result<Plan> plan_once(const Graph& canonical, Device& device, const PlanOptions& options) {
  Plan plan{canonical, {}, {}, options.whole};
  RewriteOptions rewrite;
  rewrite.whole = options.whole;
  rewrite.disabled = options.disabled;
  PipelineReport report;
  SF_TRY(prepare_for_htp(plan.graph, options.target, rewrite, &report));
  if (options.grids) SF_TRY(options.grids(plan.graph));
  if (plan.graph.node_count() == 0) copy_outputs(plan.graph);
  plan.asked = options.partition;
  plan.asked.refused.insert(report.refused.begin(), report.refused.end());
  SF_ASSIGN(plan.parts, partition(plan.graph, device, plan.asked));
  return plan;
}

Tensor random_tensor(const Type& type, uint32_t seed) {
  std::byte* bytes = nullptr;
  const Shape shape = static_shape(type.dims);
  Tensor out = Tensor::allocate(type.dtype, shape, &bytes);
  uint32_t state = seed * 2654435761u + 1;
  for (int64_t i = 0; i < out.count(); ++i) {
    state = state * 1664525u + 1013904223u;
    const double unit = static_cast<double>(state >> 8) / 16777216.0;
    Tensor one = Tensor::scalar(is_float(type.dtype) ? unit * 6 - 3 : std::floor(unit * 8), type.dtype);
    const auto width = static_cast<int64_t>(size_of(type.dtype));
    std::copy_n(static_cast<const std::byte*>(one.data), width, bytes + i * width);
  }
  return out;
}

// The largest difference of two graphs with one signature, on the CPU engine; nothing where it cannot run.
std::optional<double> compare(const Graph& a, const Graph& b) {
  std::vector<Tensor> inputs;
  for (const Leaf& leaf : a.inputs)
    if (leaf.value.valid())
      inputs.push_back(random_tensor(a.type(leaf.value), static_cast<uint32_t>(inputs.size())));
  cpu::Pool pool(1);
  std::vector<std::vector<double>> results[2];
  for (int i = 0; i < 2; ++i) {
    auto session = Session::create(i == 0 ? a : b, {}, pool);
    if (!session.ok() || !(*session)->run(inputs).ok()) return {};
    for (size_t o = 0; o < (*session)->output_count(); ++o) {
      const Tensor t = (*session)->output(o);
      std::vector<double> values;
      for (int64_t k = 0; k < t.count(); ++k) values.push_back(element_real(t, k));
      results[i].push_back(std::move(values));
    }
  }
  double most = 0;
  for (size_t o = 0; o < results[0].size() && o < results[1].size(); ++o)
    for (size_t k = 0; k < results[0][o].size(); ++k) {
      const double d = std::abs(results[0][o][k] - results[1][o][k]);
      if (std::isfinite(d)) most = std::max(most, d);
    }
  return most;
}

constexpr int64_t kMaxCompared = 1 << 22;  // elements and products: a report need not wait for more

bool is_small(const Graph& graph) {
  int64_t work = 0;
  for (const NodeId id : graph.order()) {
    const Cost cost = cost_of(graph, graph.node(id));
    work += cost.macs / 16 + cost.bytes / 4;
  }
  return work <= kMaxCompared;
}

// A conversion alone: gone when its neighbours compute in the other type.
bool is_conversion(const Graph& graph) {
  for (const NodeId id : graph.order())
    if (graph.node(id).op != Op::to) return false;
  return true;
}

// Whether all of it that computes goes to the device.
bool works(const Graph& graph, Device& device, const PlanOptions& options) {
  auto plan = plan_once(graph, device, options);
  if (!plan.ok()) return false;
  for (const Fallback& f : plan->parts.fallbacks) {
    const Node& node = plan->graph.node(f.node);
    if (!is_view(node) && !is_conversion_of_fix(plan->graph, node)) return false;
  }
  for (const auto& island : plan->parts.islands) {
    const Extract part = extract(plan->graph, island);
    const auto spec = lower_island(part.graph, choose_forms(part.graph), "fixed");
    if (!spec.ok() || !device.prepare(*spec).ok()) return false;
  }
  return !plan->parts.islands.empty() || is_conversion(graph);
}

}  // namespace

std::map<std::string, std::string> reasons_of_parts(const Plan& plan) {
  std::map<std::string, std::string> out;
  for (const Fallback& f : plan.parts.fallbacks) {
    const Node& node = plan.graph.node(f.node);
    if (!moves_only(node)) out.try_emplace(plan.graph.origin(node).name, f.reason);
  }
  return out;
}

Status tell(const Violations& violations, bool strict, std::vector<std::string>& notes) {
  std::string all;
  for (const auto& [reason, nodes] : violations) {
    std::string text = cat(reason, ": ");
    for (size_t i = 0; i < nodes.size(); ++i) text += cat(i == 0 ? "" : ", ", nodes[i]);
    all += cat(all.empty() ? "" : "; ", text);
    notes.push_back(std::move(text));
  }
  if (!strict || all.empty()) return {};
  return unsupported("--strict: not as asked for: ", all);
}

void copy_outputs(Graph& graph) {
  for (Leaf& leaf : graph.outputs) {
    if (!leaf.value.valid() || graph.value(leaf.value).kind != ValueKind::input) continue;
    const Type type = graph.type(leaf.value);
    const NodeId id = graph.add_node(Op::reshape, "", {leaf.value}, {{"shape", type.dims}}, {type}, 0);
    leaf.value = graph.node(id).output();
    graph.value(leaf.value).name = "copy";
  }
}

Result<Plan> plan_graph(const Graph& canonical, Device& device, PlanOptions options) {
  SF_ASSIGN(Plan plan, plan_once(canonical, device, options));
  auto vain = taken_apart_in_vain(plan);
  if (vain.empty()) return plan;
  const auto reasons = reasons_of_parts(plan);
  options.whole.merge(vain);
  auto again = plan_once(canonical, device, options);
  if (!again.ok()) return plan;
  for (Fallback& f : again->parts.fallbacks) {
    const auto it = reasons.find(again->graph.origin(again->graph.node(f.node)).name);
    if (it != reasons.end() && f.reason.find("[htp.") == f.reason.npos) f.reason = it->second;
  }
  return again;
}

std::vector<CpuNode> cpu_nodes(const Graph& canonical, const Plan& plan) {
  std::map<std::string, Op> whole;  // the model's node as one canonical op
  std::map<std::string, size_t> count;
  std::map<std::string, std::set<Op>> ops_of;
  for (const NodeId id : canonical.order()) {
    const Node& node = canonical.node(id);
    whole[canonical.origin(node).name] = node.op;
    ++count[canonical.origin(node).name];
    ops_of[canonical.origin(node).name].insert(node.op);
  }
  std::vector<CpuNode> out;
  std::map<std::pair<std::string, std::string>, size_t> at;  // name and reason
  for (const Fallback& f : plan.parts.fallbacks) {
    const Node& node = plan.graph.node(f.node);
    const Origin& origin = plan.graph.origin(node);
    // Parts of one node are one entry, unless they have reasons of different kinds.
    const size_t label = f.reason.find("[htp.");
    const std::string kind = label == f.reason.npos ? f.reason : f.reason.substr(label);
    const auto [it, fresh] = at.try_emplace({origin.name, kind}, out.size());
    if (fresh) {
      CpuNode n;
      n.name = origin.name;
      n.op = origin.target;
      n.canonical = to_text(count[origin.name] == 1 ? whole[origin.name] : node.op);
      n.reason = f.reason;
      n.source = origin.source;
      n.module_path = origin.module_path;
      n.view = true;
      out.push_back(std::move(n));
    }
    CpuNode& n = out[it->second];
    n.nodes.push_back(f.node);
    // What it is in the canonical graph: itself, or what a rule took apart.
    n.ops.insert(node.op);
    for (const Op op : ops_of[origin.name])
      if (origin.rule == cat("htp ", op) || count[origin.name] == 1) n.ops.insert(op);
    n.view = n.view && is_view(node);
  }
  for (CpuNode& n : out) n.cost = fallback_cost(plan.graph, plan.parts, n.nodes);
  return out;
}

TriedFix find_fix_for(const Graph& canonical, const CpuNode& node, Device& device,
                      const PlanOptions& options) {
  std::vector<NodeId> nodes;
  for (const NodeId id : canonical.order())
    if (canonical.origin(canonical.node(id)).name == node.name) nodes.push_back(id);
  TriedFix out;
  if (nodes.empty() || node.view) return out;
  const Graph alone = extract(canonical, nodes).graph;
  PlanOptions plain = options;
  plain.partition.denied.clear();
  // Taken as it stands: the reason is in its encodings, or in what is around it.
  if (works(alone, device, plain)) return out;
  for (const Fix& fix : fixes()) {
    Graph copy = alone;
    auto applied = apply_fix(copy, fix, node.name, node.ops, options.target);
    if (!applied.ok() || *applied == 0 || !works(copy, device, plain)) continue;
    out.fix = &fix;
    if (!fix.exact && is_small(alone))
      if (const auto difference = compare(alone, copy)) {
        out.difference = *difference;
        out.compared = true;
      }
    return out;
  }
  return out;
}

std::string nearest_names(std::string_view name, const std::set<std::string, std::less<>>& names) {
  std::vector<std::pair<size_t, std::string>> scored;
  for (const std::string& candidate : names) {
    std::vector<size_t> row(candidate.size() + 1);
    for (size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= name.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t j = 1; j < row.size(); ++j) {
        const size_t changed = diagonal + (name[i - 1] != candidate[j - 1]);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
      }
    }
    scored.emplace_back(row.back(), candidate);
  }
  std::sort(scored.begin(), scored.end());
  std::string out;
  for (size_t i = 0; i < scored.size() && i < 3; ++i) out += cat(i ? ", " : "", scored[i].second);
  return out;
}

}  // namespace sixfold::tools
