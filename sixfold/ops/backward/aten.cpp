#include "sixfold/ops/aten.h"

#include <vector>

#include "sixfold/ops/backward/gradient.h"
#include "sixfold/ops/rule_table.h"

namespace sixfold::aten {

SF_RULE_TABLE std::span<const AtenRule> backward_rules() {
  static const std::vector<AtenRule> all = [] {
    std::vector<AtenRule> rules;
    for (const auto part : {backward_activation_rules(), backward_norm_rules(), backward_loss_rules(),
                            backward_resample_rules(), backward_product_rules(), backward_index_rules()})
      rules.insert(rules.end(), part.begin(), part.end());
    return rules;
  }();
  return all;
}

}  // namespace sixfold::aten
