#include "sixfold/ops/aten.h"

#include <unordered_map>

namespace sixfold::aten {

std::span<const Family> families() {
  static const Family table[] = {
      {"unary", unary_rules()},         {"binary", binary_rules()},   {"reduce", reduce_rules()},
      {"norm", norm_rules()},           {"matmul", matmul_rules()},   {"conv", conv_rules()},
      {"attention", attention_rules()}, {"rnn", rnn_rules()},         {"pool", pool_rules()},
      {"image", image_rules()},         {"shape", shape_rules()},     {"index", index_rules()},
      {"quantize", quantize_rules()},   {"special", special_rules()}, {"linalg", linalg_rules()},
      {"backward", backward_rules()},
  };
  return table;
}

const AtenRule* find_rule(std::string_view target) {
  static const auto* table = [] {
    auto* map = new std::unordered_map<std::string_view, const AtenRule*>;
    for (const Family& family : families()) {
      for (const AtenRule& rule : family.rules) {
        if (rule.target) map->emplace(rule.target, &rule);  // one row for each overload: checked by AtenRules' test
      }
    }
    return map;
  }();
  const auto it = table->find(target);
  return it == table->end() ? nullptr : it->second;
}

}  // namespace sixfold::aten
