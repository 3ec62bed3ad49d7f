#include "sixfold/quantize/live.h"

#include <cmath>

#include "sixfold/quantize/testing.h"

namespace sixfold {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Of %y in a graph that begins with input %x and y = exp(x), each grid with steps of 1/256.
Range live(const std::string& rest) {
  const Graph graph = graph_of("input %x: f32[1, 4]\n%y = exp(%x) : f32[1, 4]\n" + rest);
  return find_live_ranges(graph, [](ValueId) { return 1.0 / 256; })[named(graph, "y").index];
}

TEST(Live, what_a_hardswish_reads_ends_at_minus_3) {
  EXPECT_EQ(live("%z = hardswish(%y) : f32[1, 4]\noutput %z\n"), (Range{-3, kInfinity}));
  EXPECT_EQ(live("%z = hardsigmoid(%y) : f32[1, 4]\noutput %z\n"), (Range{-3, 3}));
}

TEST(Live, what_a_sigmoid_and_a_tanh_read_ends_where_a_quarter_of_a_step_is_left) {
  const Range s = live("%z = sigmoid(%y) : f32[1, 4]\noutput %z\n");
  EXPECT_NEAR(1 / (1 + std::exp(-s.max)), 1 - 1.0 / 1024, 1e-6);
  EXPECT_EQ(s.min, -s.max);
  EXPECT_NEAR(std::tanh(live("%z = tanh(%y) : f32[1, 4]\noutput %z\n").max), 1 - 1.0 / 1024, 1e-6);
}

TEST(Live, a_sigmoid_that_computes_in_float_has_ends_too) {
  const Graph graph = graph_of("input %x: f32[4]\n%y = sigmoid(%x) : f32[4]\noutput %y\n");
  const Range r = find_live_ranges(graph, [](ValueId) { return 0.0; })[named(graph, "x").index];
  EXPECT_GT(r.max, 11);
  EXPECT_LT(r.max, 13);
}

TEST(Live, what_gates_itself_has_a_left_end) {
  const Range silu = live("%s = sigmoid(%y) : f32[1, 4]\n%z = mul(%y, %s) : f32[1, 4]\noutput %z\n");
  EXPECT_LT(silu.min, -7);
  EXPECT_GT(silu.min, -11);
  EXPECT_EQ(silu.max, kInfinity);
  const Range hard = live("%s = hardsigmoid(%y) : f32[1, 4]\n%z = mul(%y, %s) : f32[1, 4]\noutput %z\n");
  EXPECT_EQ(hard, (Range{-3, kInfinity}));
}

TEST(Live, moves_pass_it_on_and_who_reads_more_decides) {
  EXPECT_EQ(live("%a = reshape(%y, shape=[4, 1]) : f32[4, 1]\n%z = hardsigmoid(%a) : f32[4, 1]\noutput %z\n"),
            (Range{-3, 3}));
  EXPECT_EQ(live("%a = hardsigmoid(%y) : f32[1, 4]\n%z = hardswish(%y) : f32[1, 4]\noutput %a\noutput %z\n"),
            (Range{-3, kInfinity}));
  EXPECT_EQ(live("%a = hardsigmoid(%y) : f32[1, 4]\n%z = add(%y, %a) : f32[1, 4]\noutput %z\n"), kEverything);
  EXPECT_EQ(live("%a = hardsigmoid(%y) : f32[1, 4]\noutput %a\noutput %y\n"), kEverything);
}

TEST(Live, a_range_has_no_place_for_what_nobody_tells_apart) {
  Observation seen;
  seen.min = -40;
  seen.max = 5;
  seen.low = -40;
  seen.high = 8;
  seen.histogram.assign(48, 1.0);
  for (const Observer o : {Observer::min_max, Observer::mse, Observer::percentile, Observer::entropy})
    EXPECT_EQ(choose_range(seen, o, 8, false, {-3, kInfinity}), (Range{-3, 5})) << to_text(o);
  EXPECT_EQ(choose_range(seen, Observer::mse, 16, false, {-3, kInfinity}), (Range{-3, 7.5}));
}

}  // namespace
}  // namespace sixfold
