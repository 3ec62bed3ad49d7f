#include "sixfold/ops/aten.h"

#include <unordered_map>

namespace sixfold::aten {

std::span<const Family> families() {
#define SF_FAMILY(id) \
  { #id, keeps(Part::family, #id) ? id##_rules() : std::span < const AtenRule>() }
  static const Family table[] = {
      SF_FAMILY(unary),    SF_FAMILY(binary),  SF_FAMILY(reduce),    SF_FAMILY(norm),
      SF_FAMILY(matmul),   SF_FAMILY(conv),    SF_FAMILY(attention), SF_FAMILY(rnn),
      SF_FAMILY(pool),     SF_FAMILY(image),   SF_FAMILY(shape),     SF_FAMILY(index),
      SF_FAMILY(quantize), SF_FAMILY(special), SF_FAMILY(linalg),    SF_FAMILY(backward),
  };
#undef SF_FAMILY
  return table;
}

const AtenRule* find_rule(std::string_view target) {
  static const auto* table = [] {
    auto* map = new std::unordered_map<std::string_view, const AtenRule*>;
    for (const Family& family : families()) {
      for (const AtenRule& rule : family.rules) {
        if (rule.target)
          map->emplace(rule.target, &rule);  // one row for each overload: checked by AtenRules' test
      }
    }
    return map;
  }();
  const auto it = table->find(target);
  return it == table->end() ? nullptr : it->second;
}

}  // namespace sixfold::aten
