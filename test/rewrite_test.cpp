// Rules as text: test/rewrite/<rule>.graph has cases, before and after, that must agree up to the names of
// values.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "sixfold/rewrite/pipeline.h"

namespace sixfold {
namespace {

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> out;
  size_t begin = 0;
  while (true) {
    const size_t end = text.find(separator, begin);
    out.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return out;
    begin = end + separator.size();
  }
}

// The same text for graphs that differ only in names: values are numbered by their first appearance.
std::string numbered(const std::string& text) {
  std::string out;
  std::map<std::string, size_t> numbers;
  for (size_t i = 0; i < text.size();) {
    if (text[i] != '%') {
      out += text[i++];
      continue;
    }
    size_t end = i + 1;
    while (end < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_' || text[end] == '.'))
      ++end;
    const std::string name = text.substr(i, end - i);
    out += cat("%", numbers.try_emplace(name, numbers.size()).first->second);
    i = end;
  }
  return out;
}

class RuleText : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(RuleText, rewrites_before_to_after) {
  const std::string rule_name = GetParam().stem().string();
  const Rule* rule = find_rule_by_name(rule_name);
  ASSERT_NE(rule, nullptr) << rule_name << " is not a rule";
  std::stringstream text;
  text << std::ifstream(GetParam()).rdbuf();
  for (const std::string& test_case : split(text.str(), "====\n")) {
    const auto parts = split(test_case, "----\n");
    ASSERT_EQ(parts.size(), 2u) << test_case;
    auto before = parse(parts[0]);
    ASSERT_TRUE(before.ok()) << before.error().message();
    auto after = parse(parts[1]);
    ASSERT_TRUE(after.ok()) << after.error().message();
    Rewriter rewriter(*before);
    const Status status = rewriter.apply(std::span(rule, 1));
    ASSERT_TRUE(status.ok()) << status.error().message();
    EXPECT_EQ(numbered(print(*before)), numbered(print(*after))) << test_case;
  }
}

std::vector<std::filesystem::path> rule_files() {
  std::vector<std::filesystem::path> out;
  for (const auto& entry : std::filesystem::directory_iterator(SIXFOLD_SOURCE_DIR "/test/rewrite"))
    if (entry.path().extension() == ".graph") out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}
INSTANTIATE_TEST_SUITE_P(All, RuleText, testing::ValuesIn(rule_files()),
                         [](const auto& info) { return info.param.stem().string(); });

constexpr const char* kTwoReshapes =
    "input %x: f32[2, 3]\n%1 = reshape(%x, shape=[6])\n%2 = reshape(%1, shape=[3, 2])\n%3 = reshape(%2, "
    "shape=[1, 6])\noutput %3\n";

TEST(Rewriter, a_rule_can_be_switched_off_by_name) {
  auto graph = parse(kTwoReshapes);
  ASSERT_TRUE(graph.ok());
  ASSERT_TRUE(canonicalize(*graph, {.disabled = {"merge_reshapes"}}).ok());
  EXPECT_EQ(graph->node_count(), 3u);
}

TEST(Rewriter, stop_after_limits_the_patches) {
  auto graph = parse(kTwoReshapes);
  ASSERT_TRUE(graph.ok());
  PipelineReport report;
  ASSERT_TRUE(canonicalize(*graph, {.stop_after = 1}, &report).ok());
  EXPECT_EQ(report.log.size(), 1u);
}

TEST(Rewriter, metadata_that_disagrees_with_the_op_is_an_error_that_names_the_node) {
  auto graph = parse(
      "input %x: f32[2, 3]\n%1 = aten.relu.default(self=%x) : f32[2, 4]  # relu_7 at m.py:9 in forward: "
      "relu(x)\noutput %1\n");
  ASSERT_TRUE(graph.ok()) << graph.error().message();
  const Status status = canonicalize(*graph);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), Code::InvalidModel);
  for (const char* part : {"relu_7", "f32[2, 4]", "f32[2, 3]", "m.py:9"})
    EXPECT_NE(status.error().message().find(part), std::string::npos) << status.error().message();
}

TEST(Rewriter, all_unsupported_nodes_are_collected) {
  auto graph = parse(
      "input %x: f32[2]\n%1 = mylib.foo.default(x=%x) : f32[2]\n%2 = mylib.bar.default(x=%1) : "
      "f32[2]\noutput %2\n");
  ASSERT_TRUE(graph.ok()) << graph.error().message();
  PipelineReport report;
  const Status status = canonicalize(*graph, {}, &report);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), Code::Unsupported);
  EXPECT_EQ(report.unsupported.size(), 2u);
}

}  // namespace
}  // namespace sixfold
