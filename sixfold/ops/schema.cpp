#include "sixfold/ops/schema.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <iterator>
#include <memory>
#include <utility>

namespace sixfold {
namespace {

struct Row {
  std::string_view target;
  std::string_view text;
};

constexpr Row kRows[] = {
#include "sixfold/ops/aten_schemas.inc"
};

constexpr std::pair<std::string_view, ArgType> kTypeNames[] = {
    {"Tensor", ArgType::tensor},       {"int", ArgType::integer},   {"SymInt", ArgType::integer},
    {"Scalar", ArgType::number},       {"float", ArgType::real},    {"bool", ArgType::boolean},
    {"SymBool", ArgType::boolean},     {"str", ArgType::string},    {"ScalarType", ArgType::dtype},
    {"Layout", ArgType::layout},       {"Device", ArgType::device}, {"MemoryFormat", ArgType::memory_format},
    {"Generator", ArgType::generator},
};

ArgType type_named(std::string_view name) {
  for (const auto& [text, type] : kTypeNames) {
    if (text == name) return type;
  }
  return ArgType::other;
}

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Reads a schema from left to right. Each function returns false at the first character that does not fit.
class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  bool schema(Schema& schema) {
    return arguments(schema.args) && take("->") && results(schema.returns) && at_end();
  }

 private:
  bool arguments(std::vector<SchemaArg>& args) {
    if (!take("(")) return false;
    bool keyword_only = false;
    if (take(")")) return true;
    do {
      if (take("*")) {
        keyword_only = true;
        continue;
      }
      SchemaArg arg;
      arg.keyword_only = keyword_only;
      if (!type(arg) || !word(arg.name)) return false;
      arg.has_default = take("=");
      if (arg.has_default && !value(arg.default_text)) return false;
      args.push_back(std::move(arg));
    } while (take(","));
    return take(")");
  }

  bool results(std::vector<SchemaReturn>& returns) {
    const bool tuple = take("(");
    if (tuple && take(")")) return true;
    do {
      SchemaArg parsed;
      if (!type(parsed)) return false;
      word(parsed.name);
      returns.push_back(
          {parsed.type, parsed.list, std::move(parsed.alias), parsed.mutates, std::move(parsed.name)});
    } while (tuple && take(","));
    return !tuple || take(")");
  }

  // A word, its alias set, and then "?" and "[n]" in either order: Tensor(a!), int[2], int[1]?, Tensor?[].
  bool type(SchemaArg& arg) {
    std::string name;
    if (!word(name)) return false;
    arg.type = type_named(name);
    if (take("(") && !alias(arg)) return false;
    for (;;) {
      if (take("?")) {
        arg.nullable = true;
      } else if (take("[")) {
        if (arg.list) arg.type = ArgType::other;
        arg.list = true;
        arg.nullable_items = std::exchange(arg.nullable, false);
        arg.list_size = 0;
        while (!rest_.empty() && rest_[0] >= '0' && rest_[0] <= '9' && arg.list_size < 1000) {
          arg.list_size = arg.list_size * 10 + (rest_[0] - '0');
          rest_.remove_prefix(1);
        }
        if (!take("]")) return false;
      } else {
        return true;
      }
    }
  }

  // "a)", "a!)" or "a -> *)": the last is a view whose results go into a list.
  bool alias(SchemaArg& arg) {
    if (!word(arg.alias)) return false;
    arg.mutates = take("!");
    if (take("->") && !take("*")) return false;
    return take(")");
  }

  // A default reaches to the comma or bracket that ends its argument; lists and strings have their own
  // inside.
  bool value(std::string& out) {
    int depth = 0;
    bool quoted = false;
    size_t size = 0;
    for (; size < rest_.size(); ++size) {
      const char c = rest_[size];
      if (c == '"') quoted = !quoted;
      if (quoted) continue;
      if (depth == 0 && (c == ',' || c == ')')) break;
      if (c == '[' || c == '(') ++depth;
      if (c == ']' || c == ')') --depth;
    }
    out = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return size > 0;
  }

  bool word(std::string& out) {
    skip_spaces();
    const auto end = std::find_if_not(rest_.begin(), rest_.end(), is_word);
    const auto size = static_cast<size_t>(end - rest_.begin());
    out = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return size > 0;
  }

  bool take(std::string_view token) {
    skip_spaces();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  bool at_end() {
    skip_spaces();
    return rest_.empty();
  }

  void skip_spaces() { rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size())); }

  std::string_view rest_;
};

}  // namespace

std::optional<Schema> parse_schema(std::string_view target, std::string_view text) {
  Schema schema;
  schema.target = target;
  if (!Parser(text).schema(schema)) return std::nullopt;
  return schema;
}

const Schema* find_schema(std::string_view target) {
  const Row* row = std::lower_bound(std::begin(kRows), std::end(kRows), target,
                                    [](const Row& a, std::string_view b) { return a.target < b; });
  if (row == std::end(kRows) || row->target != target) return nullptr;

  // Two threads may parse the same row; the first to store wins, and the other drops its copy.
  static std::array<std::atomic<const Schema*>, std::size(kRows)> parsed{};
  std::atomic<const Schema*>& slot = parsed[static_cast<size_t>(row - std::begin(kRows))];
  if (const Schema* known = slot.load(std::memory_order_acquire)) return known;
  std::optional<Schema> schema = parse_schema(row->target, row->text);
  if (!schema) return nullptr;
  auto made = std::make_unique<const Schema>(*std::move(schema));
  const Schema* expected = nullptr;
  if (!slot.compare_exchange_strong(expected, made.get(), std::memory_order_acq_rel)) return expected;
  return made.release();
}

std::vector<std::string_view> schema_targets() {
  std::vector<std::string_view> targets;
  targets.reserve(std::size(kRows));
  for (const Row& row : kRows) targets.push_back(row.target);
  return targets;
}

}  // namespace sixfold
