#include "sixfold/graph/graph.h"

#include <gtest/gtest.h>

namespace sixfold {
namespace {

constexpr const char* kText = R"(symbol s0 2 64
input %x: f32[s0, 3, 8, 8]
input 3
constant %w: f32[4, 3, 3, 3] = ...
constant %c: f32[] encoding(u8, 0, 255, -1, [0.5], [128]) = [1.5]
constant %i: i64[2] = [1, -2]
state %count: f32[] = [0.0]
%conv = aten.conv2d.default(input=%x, weight=%w, bias=none, stride=[1, 1], padding=[1, 1], dilation=[1, 1], groups=1) : f32[s0, 4, 8, 8]  # conv2d at m.py:3 in forward: y = self.conv(x)
%sum = aten.add.Tensor(self=%conv, other=%c, alpha=1) : f32[s0, 4, 8, 8]
%cat = aten.cat.default(tensors=[%sum, %sum], dim=1) : f32[s0, 8, 8, 8]
%pick = aten.index_select.default(self=%cat, dim=1, index=%i) : f32[s0, 2, 8, 8]
%next = aten.mul.Tensor(self=%count, other=2.0) : f32[]
mutate %count %next
output %pick
output none
)";

TEST(GraphText, a_printed_graph_reads_back_to_the_same_text) {
  auto graph = parse(kText);
  ASSERT_TRUE(graph.ok()) << graph.error().message();
  const std::string once = print(*graph);
  EXPECT_EQ(once, kText);
  auto again = parse(once);
  ASSERT_TRUE(again.ok()) << again.error().message();
  EXPECT_EQ(print(*again), once);
}

TEST(GraphText, errors_name_the_line) {
  for (const char* bad :
       {"output %x\n", "input %x: f99[1]\n", "%y = relu(\n", "input %x: f32[1\n", "fly\n"}) {
    auto graph = parse(bad);
    ASSERT_FALSE(graph.ok()) << bad;
    EXPECT_NE(graph.error().message().find("line 1"), std::string::npos) << graph.error().message();
  }
}

TEST(Graph, specialize_replaces_symbols_everywhere) {
  auto graph = parse(kText);
  ASSERT_TRUE(graph.ok());
  specialize(*graph, {{"s0", 5}});
  EXPECT_NE(print(*graph).find("%cat = aten.cat.default(tensors=[%sum, %sum], dim=1) : f32[5, 8, 8, 8]"),
            std::string::npos);
}

TEST(Graph, dead_nodes_go_and_live_ones_stay) {
  auto graph = parse(
      "input %x: f32[2]\n%a = aten.relu.default(self=%x) : f32[2]\n%b = aten.relu.default(self=%x) : "
      "f32[2]\noutput %b\n");
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(graph->remove_dead(), 1u);
  EXPECT_EQ(graph->node_count(), 1u);
  EXPECT_TRUE(verify(*graph).ok());
}

TEST(Verify, a_shape_that_overflows_is_refused) {
  auto graph = parse("input %x: f32[1099511627776, 1099511627776]\noutput %x\n");
  ASSERT_FALSE(graph.ok());
  EXPECT_NE(graph.error().message().find("needs more than"), std::string::npos) << graph.error().message();
}

}  // namespace
}  // namespace sixfold
