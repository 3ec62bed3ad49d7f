#include "tools/runner/flags.h"

#include <algorithm>
#include <charconv>

#include "sixfold/base/cat.h"

namespace sixfold::tools {
namespace {

Result<bool> to_bool(std::string_view text) {
  for (const char* yes : {"true", "t", "1", "yes", "y"})
    if (text == yes) return true;
  for (const char* no : {"false", "f", "0", "no", "n"})
    if (text == no) return false;
  return invalid_argument("is ", text, ", expected true or false");
}

Status set(Flag& flag, std::string_view text) {
  flag.given = true;
  if (auto* s = std::get_if<std::string*>(&flag.value)) {
    **s = text;
    return {};
  }
  if (auto* b = std::get_if<bool*>(&flag.value)) {
    SF_ASSIGN(**b, to_bool(text));
    return {};
  }
  int64_t& n = **std::get_if<int64_t*>(&flag.value);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size() || n < 0)
    return invalid_argument("is ", text, ", expected a number of 0 or more");
  return {};
}

}  // namespace

Status parse_flags(int argc, const char* const* argv, std::vector<Flag>& flags) {
  for (int i = 1; i < argc; ++i) {
    std::string_view word = argv[i];
    if (!word.starts_with('-') || word == "-" || word == "--")
      return invalid_argument("argument ", word, " is no flag: flags are written --name=value");
    word.remove_prefix(word.starts_with("--") ? 2 : 1);
    const size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    auto flag = std::find_if(flags.begin(), flags.end(), [&](const Flag& f) { return f.name == name; });
    bool negated = false;
    if (flag == flags.end() && name.starts_with("no") && equals == std::string_view::npos) {
      flag =
          std::find_if(flags.begin(), flags.end(), [&](const Flag& f) { return f.name == name.substr(2); });
      negated = flag != flags.end() && std::holds_alternative<bool*>(flag->value);
      if (!negated) flag = flags.end();
    }
    if (flag == flags.end()) return invalid_argument("flag --", name, " is not known; --help lists all");
    std::string_view value;
    if (equals != std::string_view::npos) {
      value = word.substr(equals + 1);
    } else if (std::holds_alternative<bool*>(flag->value)) {
      value = negated ? "false" : "true";
    } else {
      if (i + 1 == argc) return invalid_argument("flag --", name, " needs a value");
      value = argv[++i];
    }
    if (Status s = set(*flag, value); !s.ok())
      return invalid_argument("flag --", name, " ", s.error().message());
  }
  return {};
}

std::string describe_flags(const std::vector<Flag>& flags) {
  std::string out;
  for (const Flag& flag : flags) {
    std::string start = cat("  --", flag.name);
    if (start.size() < 36) start.resize(36, ' ');
    out += cat(start, " ", flag.meaning);
    if (auto* s = std::get_if<std::string*>(&flag.value); s && !(*s)->empty()) out += cat(" (", **s, ")");
    if (auto* n = std::get_if<int64_t*>(&flag.value)) out += cat(" (", **n, ")");
    if (auto* b = std::get_if<bool*>(&flag.value)) out += **b ? " (true)" : " (false)";
    out += "\n";
  }
  return out;
}

}  // namespace sixfold::tools
