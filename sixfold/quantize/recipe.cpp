#include "sixfold/quantize/recipe.h"

#include <nlohmann/json.hpp>

namespace sixfold {
namespace {

using Json = nlohmann::json;

constexpr std::pair<const char*, RecipeRule::Kind> kKinds[] = {{"op", RecipeRule::op},
                                                               {"match", RecipeRule::match},
                                                               {"module", RecipeRule::module},
                                                               {"node", RecipeRule::node}};

std::string name_of(const RecipeRule& rule) {
  for (const auto& [name, kind] : kKinds)
    if (kind == rule.kind) return cat(name, " ", rule.text);
  return rule.text;
}

Status read_choice(const Json& json, std::string_view where, RecipeChoice& out) {
  for (const auto& [key, value] : json.items()) {
    if (key == "precision" && value.is_string()) {
      SF_ASSIGN(out.scheme, scheme_of(value.get<std::string>()));
    } else if (key == "observer" && value.is_string()) {
      out.observer = observer_of(value.get<std::string>());
      if (!out.observer)
        return invalid_argument("the recipe's ", where, " has the observer ", value.get<std::string>(),
                                ", expected min-max, moving-average, mse, entropy or percentile");
    } else if (key == "per_channel" && value.is_boolean()) {
      out.per_channel = value.get<bool>();
    } else if (key == "block_size" && value.is_array()) {
      for (const Json& n : value) {
        if (!n.is_number_integer() || n.get<int64_t>() < 1)
          return invalid_argument("the recipe's ", where, " has a block_size of ", n.dump(),
                                  ", expected integers from 1");
        out.block.push_back(n.get<int64_t>());
      }
    } else {
      bool selects = false;
      for (const auto& [name, kind] : kKinds) selects = selects || key == name;
      if (selects) continue;
      return invalid_argument("the recipe's ", where, " has \"", key, "\": ", value.dump(),
                              ", expected precision, observer, per_channel or block_size");
    }
  }
  return {};
}

bool names(const RecipeRule& rule, const Origin& origin, Op op) {
  for (const Origin& f : origin.folded)
    if (names(rule, f, op)) return true;
  const std::string& path = origin.module_path;
  switch (rule.kind) {
    case RecipeRule::op:
      return rule.text == origin.target || rule.text == to_text(op);
    case RecipeRule::match:
      return std::regex_search(origin.name, rule.pattern) || std::regex_search(path, rule.pattern);
    case RecipeRule::module:
      return path == rule.text || path.starts_with(rule.text + ".");
    case RecipeRule::node:
      return rule.text == origin.name;
  }
  return false;
}

// One field of a node's choice, from rules in order: the most exact that says something.
struct Said {
  const RecipeRule* rule = nullptr;
};

}  // namespace

Result<Recipe> Recipe::parse(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return invalid_argument("the recipe is no JSON object");
  Recipe out;
  for (const auto& [key, value] : json.items())
    if (key != "default" && key != "rules")
      return invalid_argument("the recipe has \"", key, "\", expected default and rules");
  if (json.contains("default")) {
    if (!json["default"].is_object()) return invalid_argument("the recipe's default is no object");
    SF_TRY(read_choice(json["default"], "default", out.default_));
  }
  if (!json.contains("rules")) return out;
  if (!json["rules"].is_array()) return invalid_argument("the recipe's rules are no list");
  for (const Json& entry : json["rules"]) {
    RecipeRule rule;
    size_t selectors = 0;
    for (const auto& [name, kind] : kKinds) {
      if (!entry.is_object() || !entry.contains(name) || !entry[name].is_string()) continue;
      rule.kind = kind;
      rule.text = entry[name].get<std::string>();
      ++selectors;
    }
    if (selectors != 1)
      return invalid_argument("a rule of the recipe has ", selectors,
                              " of op, node, module and match, expected one: ", entry.dump());
    if (rule.kind == RecipeRule::match) {
      try {
        rule.pattern = std::regex(rule.text);
      } catch (const std::regex_error& e) {
        return invalid_argument("the recipe's match ", rule.text, " is no regular expression: ", e.what());
      }
    }
    SF_TRY(read_choice(entry, name_of(rule), rule.choice));
    const RecipeChoice& c = rule.choice;
    if (!c.scheme && !c.observer && !c.per_channel && c.block.empty())
      return invalid_argument("the recipe's rule for ", name_of(rule), " changes nothing");
    out.rules_.push_back(std::move(rule));
  }
  return out;
}

Result<RecipeChoice> Recipe::choice_for(const Graph& graph, const Node& node, std::vector<bool>& used) const {
  RecipeChoice out = default_;
  Said scheme, observer, per_channel, block;
  const auto differ = [&](const RecipeRule& a, const RecipeRule& b, const char* what) {
    return invalid_argument("the recipe contradicts itself: ", name_of(a), " and ", name_of(b), " give node ",
                            graph.origin(node).name, " different ", what);
  };
  const auto say = [&](Said& said, const RecipeRule& rule, auto field, const char* what) -> Status {
    const auto& value = rule.choice.*field;
    if (value == decltype(RecipeChoice().*field){}) return {};
    if (said.rule && said.rule->kind == rule.kind && !(out.*field == value))
      return differ(*said.rule, rule, what);
    if (said.rule && said.rule->kind > rule.kind) return {};
    said.rule = &rule;
    out.*field = value;
    return {};
  };
  for (size_t i = 0; i < rules_.size(); ++i) {
    const RecipeRule& rule = rules_[i];
    if (!names(rule, graph.origin(node), node.op)) continue;
    used[i] = true;
    SF_TRY(say(scheme, rule, &RecipeChoice::scheme, "precisions"));
    SF_TRY(say(observer, rule, &RecipeChoice::observer, "observers"));
    SF_TRY(say(per_channel, rule, &RecipeChoice::per_channel, "per_channel"));
    SF_TRY(say(block, rule, &RecipeChoice::block, "block sizes"));
  }
  return out;
}

Status Recipe::check_used(const std::vector<bool>& used) const {
  std::string idle;
  for (size_t i = 0; i < rules_.size(); ++i)
    if (!used[i]) idle += cat(idle.empty() ? "" : ", ", name_of(rules_[i]));
  if (idle.empty()) return {};
  return invalid_argument("the recipe names what the model does not have: ", idle);
}

}  // namespace sixfold
