#include <vector>

#include "sixfold/ops/elementwise.h"
#include "sixfold/ops/rule_table.h"

namespace sixfold::aten {

SF_RULE_TABLE std::span<const AtenRule> binary_rules() {
  static const std::vector<AtenRule> all = [] {
    std::vector<AtenRule> rules;
    for (const auto part : {arithmetic_rules(), logic_rules(), binary_function_rules()})
      rules.insert(rules.end(), part.begin(), part.end());
    return rules;
  }();
  return all;
}

}  // namespace sixfold::aten
