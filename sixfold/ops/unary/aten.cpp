#include <vector>

#include "sixfold/ops/elementwise.h"
#include "sixfold/ops/rule_table.h"

namespace sixfold::aten {

SF_RULE_TABLE std::span<const AtenRule> unary_rules() {
  static const std::vector<AtenRule> all = [] {
    std::vector<AtenRule> rules;
    for (const auto part : {function_rules(), activation_rules(), copy_rules()})
      rules.insert(rules.end(), part.begin(), part.end());
    return rules;
  }();
  return all;
}

}  // namespace sixfold::aten
