// sixfold ops: the op tables, for people (docs/ops.md is its --markdown) and programs.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "sixfold/ops/aten.h"
#include "tools/command.h"

namespace sixfold::tools {
namespace {

using Json = nlohmann::ordered_json;

OpsOptions options;

const char* layout_text(Layout layout) {
  switch (layout) {
    case Layout::plain:
      return "row-major";
    case Layout::follow:
      return "any";
    case Layout::image:
      return "row-major, channels-last";
  }
  return "";
}

std::vector<std::string> sorted_targets(const aten::Family& family) {
  std::vector<std::string> out;
  for (const AtenRule& rule : family.rules) out.emplace_back(rule.target);
  std::sort(out.begin(), out.end());
  return out;
}

void print_markdown() {
  size_t overloads = 0;
  for (const aten::Family& family : aten::families()) overloads += family.rules.size();
  print_line("# Ops\n\nMade by `sixfold ops --markdown`; a test compares this page with it.\n");
  print_line(cat(
      "## ATen overloads\n\n", overloads,
      " overloads of ATen are read, by family (the folder under `sixfold/ops/`). In-place forms and views "
      "become functional on import. Any other op is refused by name.\n"));
  print_line("| family | overloads |\n| --- | --- |");
  for (const aten::Family& family : aten::families()) {
    std::string row = cat("| ", family.name, " | ");
    for (const std::string& target : sorted_targets(family)) row += cat("`", target, "` ");
    print_line(row + "|");
  }
  print_line(cat("\n## Canonical ops\n\n", kOpCount - 1,
                 " ops; operands and attributes are in `sixfold/ops/aten.def`. The layout is what memory "
                 "orders the CPU kernel takes.\n"));
  print_line("| op | CPU layouts |\n| --- | --- |");
  for (size_t i = 1; i < kOpCount; ++i) {
    const Op op = static_cast<Op>(i);
    print_line(cat("| `", op, "` | ", layout_text(layout_of(op)), " |"));
  }
}

Status run_it() {
  if (options.markdown) {
    print_markdown();
    return {};
  }
  if (options.json) {
    Json canonical = Json::array(), overloads = Json::object();
    for (size_t i = 1; i < kOpCount; ++i)
      canonical.push_back(
          {{"op", to_text(static_cast<Op>(i))}, {"layout", layout_text(layout_of(static_cast<Op>(i)))}});
    for (const aten::Family& family : aten::families()) overloads[family.name] = sorted_targets(family);
    print_line(Json{{"canonical", canonical}, {"aten", overloads}}.dump());
    return {};
  }
  for (const aten::Family& family : aten::families()) {
    print_line(family.name);
    for (const std::string& target : sorted_targets(family)) print_line("  " + target);
  }
  return {};
}

}  // namespace

Status ops_command(const OpsOptions& given) {
  options = given;
  return run_it();
}

}  // namespace sixfold::tools
