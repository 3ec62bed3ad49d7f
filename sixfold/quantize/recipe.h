// A recipe: other precisions, observers and floats for parts of a model, from a JSON file.
#pragma once

#include <regex>

#include "sixfold/quantize/scheme.h"

namespace sixfold {

// What a node is asked for; absent: as it is by default.
struct RecipeChoice {
  std::optional<Scheme> scheme;
  std::optional<Observer> observer;
  std::optional<bool> per_channel;
  std::vector<int64_t> block;
};

struct RecipeRule {
  // Later kinds are more exact and win over earlier ones.
  enum Kind : uint8_t { op, match, module, node } kind = op;
  std::string text;
  std::regex pattern;  // match
  RecipeChoice choice;
};

class Recipe {
 public:
  static Result<Recipe> parse(std::string_view json);

  const RecipeChoice& by_default() const { return default_; }
  bool empty() const { return rules_.empty(); }
  // The choices of all rules that name the node, the most exact first. Two of one kind that say different
  // things are an error. used: one flag for each rule, set for those that name it.
  Result<RecipeChoice> choice_for(const Graph& graph, const Node& node, std::vector<bool>& used) const;
  // An error that names the rules that named nothing.
  Status check_used(const std::vector<bool>& used) const;
  size_t size() const { return rules_.size(); }

 private:
  RecipeChoice default_;
  std::vector<RecipeRule> rules_;
};

}  // namespace sixfold
