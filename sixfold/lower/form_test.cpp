#include "sixfold/lower/form.h"

#include <gtest/gtest.h>

namespace sixfold {
namespace {

Graph graph_of(const char* text) {
  auto graph = parse(text);
  EXPECT_TRUE(graph.ok()) << graph.error().message();
  return std::move(graph).value();
}

constexpr const char* kConv =
    "stride=[1, 1], padding=[1, 1], padding_end=[1, 1], dilation=[1, 1], groups=1, transposed=false, "
    "output_padding=[0, 0], activation=\"none\"";

TEST(Forms, a_chain_of_images_is_transposed_at_its_ends_only) {
  const Graph g = graph_of(cat(R"(
input %x: f32[1, 8, 6, 6]
constant %w: f32[8, 8, 3, 3] = ...
%1 = convolution(%x, %w, )",
                               kConv, R"() : f32[1, 8, 6, 6]
%2 = relu(%1) : f32[1, 8, 6, 6]
%3 = convolution(%2, %w, )",
                               kConv, R"() : f32[1, 8, 6, 6]
%4 = add(%3, %1) : f32[1, 8, 6, 6]
output %4
)")
                               .c_str());
  EXPECT_EQ(choose_forms(g).transposes, 2u);
}

TEST(Forms, one_pixel_moves_nothing) {
  const Graph g = graph_of(R"(
input %x: f32[1, 8, 6, 6]
%1 = adaptive_avg_pool(%x, size=[1, 1]) : f32[1, 8, 1, 1]
%2 = reshape(%1, shape=[1, 8]) : f32[1, 8]
output %2
)");
  EXPECT_EQ(choose_forms(g).transposes, 1u);  // of the input alone
}

TEST(Forms, a_permute_to_channels_last_after_an_image_is_free) {
  const Graph g = graph_of(R"(
input %x: f32[1, 8, 6, 6]
%1 = adaptive_avg_pool(%x, size=[3, 3]) : f32[1, 8, 3, 3]
%2 = permute(%1, dims=[0, 2, 3, 1]) : f32[1, 3, 3, 8]
output %2
)");
  EXPECT_EQ(choose_forms(g).transposes, 1u);  // of the input alone
}

TEST(Forms, axes_of_one_place_come_and_go_in_either_order) {
  const Graph g = graph_of(cat(R"(
input %x: f32[1, 8, 36]
constant %w: f32[8, 8, 3, 3] = ...
%1 = reshape(%x, shape=[1, 8, 36, 1]) : f32[1, 8, 36, 1]
%2 = convolution(%1, %w, )",
                               kConv, R"() : f32[1, 8, 36, 1]
%3 = reshape(%2, shape=[1, 8, 36]) : f32[1, 8, 36]
%4 = amax(%3, dims=[2], keepdim=true) : f32[1, 8, 1]
output %4
)")
                               .c_str());
  EXPECT_EQ(choose_forms(g).transposes, 1u);  // of the input alone
}

TEST(Forms, followers_between_plain_nodes_stay_plain) {
  const Graph g = graph_of(R"(
input %x: f32[1, 8, 6, 6]
%1 = relu(%x) : f32[1, 8, 6, 6]
output %1
)");
  const Forms forms = choose_forms(g);
  EXPECT_EQ(forms.transposes, 0u);
  EXPECT_EQ(forms.of(g.node(g.first())), Form::plain);
}

}  // namespace
}  // namespace sixfold
