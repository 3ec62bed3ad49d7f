#include "sixfold/quantize/bounds.h"

#include "sixfold/quantize/testing.h"

namespace sixfold {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Of %z in a graph that begins with input %x.
Range bounds(const std::string& rest) {
  const Graph graph = graph_of("input %x: f32[1, 4]\n" + rest + "output %z\n");
  return find_bounds(graph)[named(graph, "z").index];
}

TEST(ValueBounds, an_input_can_be_anything) {
  EXPECT_EQ(bounds("%z = neg(%x) : f32[1, 4]\n"), kEverything);
  EXPECT_EQ(bounds("%z = reshape(%x, shape=[1, 4]) : f32[1, 4]\n"), kEverything);
}

TEST(ValueBounds, gates_and_relus_have_theirs) {
  EXPECT_EQ(bounds("%z = sigmoid(%x) : f32[1, 4]\n"), (Range{0, 1}));
  EXPECT_EQ(bounds("%z = tanh(%x) : f32[1, 4]\n"), (Range{-1, 1}));
  EXPECT_EQ(bounds("%z = relu(%x) : f32[1, 4]\n"), (Range{0, kInfinity}));
  EXPECT_EQ(bounds("%z = clamp(%x, min=-1.0, max=6.0) : f32[1, 4]\n"), (Range{-1, 6}));
}

TEST(ValueBounds, what_moves_elements_or_means_them_keeps_them) {
  EXPECT_EQ(bounds("%r = relu(%x) : f32[1, 4]\n%z = mean(%r, dims=[1], keepdim=true) : f32[1, 1]\n"),
            (Range{0, kInfinity}));
  EXPECT_EQ(bounds("%r = sigmoid(%x) : f32[1, 4]\n%z = reshape(%r, shape=[4]) : f32[4]\n"), (Range{0, 1}));
}

TEST(ValueBounds, sums_and_products_follow_their_operands) {
  const std::string both = "%s = sigmoid(%x) : f32[1, 4]\n%t = tanh(%x) : f32[1, 4]\n";
  EXPECT_EQ(bounds(both + "%z = mul(%s, %t) : f32[1, 4]\n"), (Range{-1, 1}));
  EXPECT_EQ(bounds(both + "%z = add(%s, %t) : f32[1, 4]\n"), (Range{-1, 2}));
  EXPECT_EQ(bounds(both + "%z = sub(%s, %t) : f32[1, 4]\n"), (Range{-1, 2}));
  EXPECT_EQ(bounds("%z = mul(%x, %x) : f32[1, 4]\n"), (Range{0, kInfinity}));
  EXPECT_EQ(bounds("%s = sigmoid(%x) : f32[1, 4]\n%z = mul(%x, %s) : f32[1, 4]\n"), kEverything);
}

}  // namespace
}  // namespace sixfold
