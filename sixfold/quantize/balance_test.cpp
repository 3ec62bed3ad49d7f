// Factors of channels go through what keeps them and stop at what does not; the float graph computes the
// same.
#include "sixfold/quantize/balance.h"

#include "sixfold/quantize/calibrate.h"
#include "sixfold/quantize/simulate.h"
#include "sixfold/quantize/testing.h"

namespace sixfold {
namespace {

constexpr const char* kConv =
    "stride=[1, 1], padding=[0, 0], padding_end=[0, 0], dilation=[1, 1], transposed=false, "
    "output_padding=[0, 0], groups=1, activation=\"none\"";

// Two channels of 1 and 1/50: a sum, a pool and joined channels between convolutions.
Graph network(const std::string& between) {
  return graph_of(
      cat("input %x: f32[1, 2, 4, 4]\n", "constant %w: f32[2, 2, 1, 1] = [0.9, -0.3, 0.01, 0.02]\n",
          "constant %b: f32[2] = [0.1, 0.001]\n", "constant %v: f32[2, 2, 1, 1] = [0.5, 0.7, -0.6, 0.4]\n",
          "constant %t: f32[2, 2, 1, 1] = [0.5, 0.7, -0.01, 0.02]\n",
          "constant %u: f32[2, 4, 1, 1] = [0.5, 0.7, -0.6, 0.4, 0.3, 0.8, -0.2, 0.6]\n",
          "%a = convolution(%x, %w, %b, ", kConv, ") : f32[1, 2, 4, 4]\n",
          "%r = relu(%a) : f32[1, 2, 4, 4]\n", between));
}

std::unique_ptr<Samples> waves() {
  std::vector<std::vector<Tensor>> rows;
  for (int k = 0; k < 3; ++k) rows.push_back({wave({1, 2, 4, 4}, static_cast<float>(k))});
  return samples_of(rows);
}

struct Balanced {
  Graph graph;
  size_t channels = 0;
  double bits = 0, decibels = 0;
  Observations seen;
};

Balanced balanced(const Graph& real) {
  const auto samples = waves();
  auto seen = calibrate(real, *samples, {.threads = 1, .channels = true});
  EXPECT_TRUE(seen.ok());
  Balanced out{real};
  out.bits = imbalance_of(real, *seen);
  out.channels = balance_channels(out.graph, *seen, 0.5f);
  auto told = measure(real, out.graph, *samples, {.threads = 1});
  EXPECT_TRUE(told.ok()) << (told.ok() ? "" : told.error().message());
  out.decibels = told->sqnr_db;
  auto after = calibrate(out.graph, *samples, {.threads = 1, .channels = true});
  EXPECT_TRUE(after.ok());
  out.seen = std::move(after).value();
  return out;
}

TEST(Balance, factors_go_through_sums_pools_and_joined_channels) {
  const Graph real =
      network(cat("%c = convolution(%r, %t, ", kConv, ") : f32[1, 2, 4, 4]\n",
                  "%s = add(%c, %r) : f32[1, 2, 4, 4]\n", "%j = concat(%s, %r, dim=1) : f32[1, 4, 4, 4]\n",
                  "%p = avg_pool(%j, kernel=[2, 2], stride=[2, 2], padding=[0, 0], ceil_mode=false, "
                  "count_include_pad=true, divisor=0) : f32[1, 4, 2, 2]\n",
                  "%o = convolution(%p, %u, ", kConv, ") : f32[1, 2, 2, 2]\noutput %o\n"));
  const Balanced b = balanced(real);
  EXPECT_GT(b.channels, 0u);
  EXPECT_GT(b.decibels, 110);
}

TEST(Balance, factors_go_past_gates_and_into_transposed_convolutions) {
  const std::string transposed = std::string(kConv).replace(std::string(kConv).find("false"), 5, "true");
  const Graph real = network(cat(
      "%p = adaptive_avg_pool(%r, size=[1, 1]) : f32[1, 2, 1, 1]\n", "%c = convolution(%p, %v, ", kConv,
      ") : f32[1, 2, 1, 1]\n", "%g = sigmoid(%c) : f32[1, 2, 1, 1]\n", "%m = mul(%g, %r) : f32[1, 2, 4, 4]\n",
      "%o = convolution(%m, %v, ", transposed, ") : f32[1, 2, 4, 4]\noutput %o\n"));
  const Balanced b = balanced(real);
  EXPECT_GT(b.bits, 2);
  EXPECT_GT(b.decibels, 110);
  const auto& channels = b.seen.values[named(b.graph, "m").index].channels;
  ASSERT_EQ(channels.size(), 2u);
  EXPECT_GT(channels[1].max / channels[0].max, 0.05f);  // 0.02 before
}

TEST(Balance, a_product_of_two_images_is_left_alone) {
  const Graph real = network(cat("%m = mul(%r, %r) : f32[1, 2, 4, 4]\n", "%o = convolution(%m, %v, ", kConv,
                                 ") : f32[1, 2, 4, 4]\noutput %o\n"));
  EXPECT_EQ(balanced(real).channels, 0u);
}

TEST(Balance, a_small_channel_gets_a_range_like_its_neighbour) {
  const Graph real = network(cat("%o = convolution(%r, %v, ", kConv, ") : f32[1, 2, 4, 4]\noutput %o\n"));
  const Balanced b = balanced(real);
  EXPECT_GT(b.bits, 2);
  EXPECT_GT(b.decibels, 110);
  const auto& channels = b.seen.values[named(b.graph, "r").index].channels;
  ASSERT_EQ(channels.size(), 2u);
  EXPECT_GT(channels[1].max / channels[0].max, 0.1f);
}

TEST(Balance, nothing_is_divided_that_others_read) {
  for (const char* reader : {"%o = sigmoid(%r) : f32[1, 2, 4, 4]\noutput %o\n", "output %r\n"}) {
    const Balanced b = balanced(network(reader));
    EXPECT_EQ(b.channels, 0u);
    EXPECT_EQ(b.bits, 0);
    EXPECT_EQ(b.decibels, 200);
  }
}

}  // namespace
}  // namespace sixfold
