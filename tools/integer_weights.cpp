#include "tools/integer_weights.h"

namespace sixfold::tools {

Result<Plan> plan_integer_weights(Graph& canonical, const WeightScheme& scheme, Device& device,
                                  const PlanOptions& options, bool strict, std::vector<std::string>& notes) {
  const std::vector<NodeId> given = quantize_weights(canonical, scheme);
  SF_ASSIGN(Plan plan, plan_graph(canonical, device, options));
  const std::map<std::string, std::string> refused = reasons_of_parts(plan);
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
  const std::map<std::string, std::string> still = reasons_of_parts(plan);  // for reasons of their own
  Violations violations;
  for (const std::string& name : tried)
    if (!still.contains(name))
      violations[cat("weights stay float where halves are not multiplied with integers (", refused.at(name),
                     ")")]
          .push_back(name);
  SF_TRY(tell(violations, strict, notes));
  return plan;
}

}  // namespace sixfold::tools
