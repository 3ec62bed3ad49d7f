#include "sixfold/ops/aten.h"

#include "sixfold/ops/rule_table.h"
#include "sixfold/ops/shape/build.h"

namespace sixfold::aten {

SF_RULE_TABLE std::span<const AtenRule> shape_rules() {
  static const auto* rules = [] {
    auto* all = new std::vector<AtenRule>;
    for (const auto part : {view_rules(), split_rules(), join_rules(), create_rules(), diagonal_rules(),
                            neighbour_rules(), prims_rules(), window_rules()})
      all->insert(all->end(), part.begin(), part.end());
    return all;
  }();
  return *rules;
}

}  // namespace sixfold::aten
