#include "sixfold/ops/aten.h"

#include <unordered_map>

namespace sixfold::aten {

const AtenRule* find_rule(std::string_view target) {
  static const auto* table = [] {
    auto* map = new std::unordered_map<std::string_view, const AtenRule*>;
    for (const auto rules : {unary_rules(), binary_rules(), reduce_rules(), norm_rules(), matmul_rules(), conv_rules(),
                             attention_rules(), rnn_rules(), pool_rules(), image_rules(), shape_rules(), index_rules(),
                             quantize_rules()}) {
      for (const AtenRule& rule : rules) {
        [[maybe_unused]] const bool fresh = map->emplace(rule.target, &rule).second;
        assert(fresh && "two families claim one overload");
      }
    }
    return map;
  }();
  const auto it = table->find(target);
  return it == table->end() ? nullptr : it->second;
}

}  // namespace sixfold::aten
