#include "tools/integer_weights.h"

namespace sixfold::tools {
namespace {

std::map<std::string, std::string> refused_nodes(const Plan& plan) {  // of the model, and why
  std::map<std::string, std::string> out;
  for (const Fallback& f : plan.parts.fallbacks)
    out.try_emplace(plan.graph.origin(plan.graph.node(f.node)).name, f.reason);
  return out;
}

}  // namespace

Result<Plan> plan_integer_weights(Graph& canonical, const WeightScheme& scheme, Device& device,
                                  const PlanOptions& options, bool strict, std::vector<std::string>& notes) {
  const std::vector<NodeId> given = quantize_weights(canonical, scheme);
  SF_ASSIGN(Plan plan, plan_graph(canonical, device, options));
  const std::map<std::string, std::string> refused = refused_nodes(plan);
  std::vector<std::string> tried;
  for (const NodeId id : given) {
    const Node& node = canonical.node(id);
    const std::string& name = canonical.origin(node).name;
    if (!refused.contains(name)) continue;
    canonical.value(node.input(1)).encoding.reset();
    tried.push_back(name);
  }
  if (tried.empty()) return plan;
  SF_ASSIGN(plan, plan_graph(canonical, device, options));
  const std::map<std::string, std::string> still = refused_nodes(plan);  // for reasons of their own
  std::map<std::string, std::string> names;                              // by reason
  for (const std::string& name : tried) {
    if (still.contains(name)) continue;
    std::string& list = names[refused.at(name)];
    list += cat(list.empty() ? "" : ", ", name);
  }
  std::string all;
  for (const auto& [reason, list] : names) {
    notes.push_back(
        cat("weights stay float where halves are not multiplied with integers (", reason, "): ", list));
    all += cat(all.empty() ? "" : "; ", notes.back());
  }
  if (strict && !all.empty()) return unsupported("--strict: not as asked for: ", all);
  return plan;
}

}  // namespace sixfold::tools
