#include "sixfold/quantize/fit_device.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sixfold/quantize/testing.h"

namespace sixfold {
namespace {

void quantize_seen(Graph& graph, float min, float max) {
  const auto plan = annotate(graph, {});
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  const auto report = quantize(graph, *plan, seen_all(graph, min, max));
  ASSERT_TRUE(report.ok()) << report.error().message();
}

Encoding grid(double scale, int zero) {
  Encoding e{.storage = DType::u8};
  e.quant_max = 255;
  e.scales = {static_cast<float>(scale)};
  e.zero_points = {zero};
  return e;
}

TEST(FitDevice, scales_of_a_softmax_are_not_cut_by_the_device) {
  for (double scale = 1.0 / 65536; scale < 1.0 / 255; scale *= 1.0371) {
    const Encoding e = fit_softmax_result(grid(scale, 0));
    const double parts = static_cast<double>(e.scales[0]) * 65536;
    EXPECT_LE((parts - std::floor(parts)) / std::floor(parts) * 255, 1.0 / 64) << scale;
    EXPECT_GE(e.scales[0], static_cast<float>(scale));
    EXPECT_LT(e.scales[0], scale + 1.0 / 65536);
  }
  EXPECT_EQ(fit_softmax_result(grid(1e-6, 0)), grid(1.0 / 65536, 0));
}

// An answer that is always 0 or 1 is exact: the highest number of the grid is 1.
TEST(FitDevice, a_saturated_softmax_reaches_one) {
  const Encoding e = fit_softmax_result(grid(1.0 / 255, 0));
  EXPECT_EQ(e.scales[0] * 255, 1.0F);
}

TEST(FitDevice, ends_of_an_arc_sine_are_numbers) {
  EXPECT_EQ(fit_arc_operand(grid(0.5 / 255, 100)), grid(0.5 / 255, 100));
  for (const double high : {0.2, 1.0, 1.5})  // each reaches beyond -1
    for (const int64_t most : {255, 65535}) {
      const double scale = (1 + high) / static_cast<double>(most);
      Encoding wide = grid(scale, static_cast<int>(1 / scale) + 1);
      wide.quant_max = most;
      const Encoding e = fit_arc_operand(wide);
      const auto step = static_cast<double>(e.scales[0]);
      EXPECT_LT(std::round(1 / step) * step, 1) << high;
      EXPECT_GT(std::round(1 / step) * step, 1 - step / 2) << high;
      EXPECT_GE(-e.zero_points[0] * step, -1) << high;
    }
}

TEST(FitDevice, constants_that_are_added_have_steps_of_the_sum_halved) {
  const auto wide = [](double scale, int zero) {
    Encoding e = grid(scale, zero);
    e.storage = DType::u16;
    e.quant_max = 65535;
    return e;
  };
  const Encoding sum = wide(7.8e-5, 300);
  EXPECT_EQ(fit_addend(wide(1e-10 / 65535, 0), sum), wide(1e-10 / 65535, 0));  // it would be nothing
  for (const double constant : {2e-6, 0.0838, 3.3, 40.0}) {
    const Encoding e = fit_addend(wide(constant / 65535, 65535), sum);  // all of it below zero
    const double halves = std::log2(static_cast<double>(sum.scales[0]) / static_cast<double>(e.scales[0]));
    EXPECT_EQ(halves, std::round(halves)) << constant;
    EXPECT_LE(halves, 6) << constant;
    EXPECT_NEAR(static_cast<double>(e.scales[0]) * e.zero_points[0], constant,
                static_cast<double>(e.scales[0]) / 2)
        << constant;
  }
}

TEST(FitDevice, steps_of_a_logarithm_are_not_too_fine_and_reach_as_far) {
  Encoding fine = grid(1e-5, 40000);
  fine.storage = DType::u16;
  fine.quant_max = 65535;
  const Encoding e = fit_log_result(fine);
  EXPECT_GT(e.scales[0], 0x1p-14f);
  const auto end = [](const Encoding& g, int32_t q) { return (q - g.zero_points[0]) * double{g.scales[0]}; };
  EXPECT_NEAR(end(e, 0), end(fine, 0), 1e-4);
  EXPECT_GT(end(e, 65535), end(fine, 65535));
  EXPECT_EQ(fit_log_result(grid(1e-4, 3)), grid(1e-4, 3));
}

TEST(FitDevice, steps_of_a_softmax_operand_have_8_bits_as_exponents_of_2) {
  for (double scale = 0.001; scale < 1; scale *= 1.0371) {
    const Encoding e = fit_softmax_operand(grid(scale, 200));
    int exponent = 0;
    const double mantissa =
        std::frexp(static_cast<double>(e.scales[0]) * 1.4426950408889634, &exponent) * 256;
    EXPECT_LT(mantissa - std::floor(mantissa), 1e-3) << scale;
    EXPECT_GE(e.scales[0], scale * 0.99999);
    EXPECT_LE(e.scales[0], scale * (1 + 1.01 / 128));
    EXPECT_NEAR(e.scales[0] * static_cast<float>(e.zero_points[0]), scale * 200, e.scales[0]);
  }
}

// 0.3 is not on a grid of steps of 1/50: what it loses there comes back through each reader's bias.
TEST(FitDevice, offsets_of_a_layer_norm_are_steps_of_its_result) {
  Graph graph = graph_of(R"(
input %x: f32[1, 3, 2]
constant %g: f32[2] = [1, 1]
constant %b: f32[2] = [0.311, -0.128]
constant %w: f32[3, 2] = [1, 2, 3, 4, 5, 6]
constant %c: f32[3] = [1, 1, 1]
constant %f: f32[1, 2, 1] = [10, 20]
constant %p: f32[1, 2, 3] = [1, 1, 1, 1, 1, 1]
%y = layer_norm(%x, %g, %b, axes=1, eps=1e-05) : f32[1, 3, 2]
%z = linear(%y, %w, %c, activation="none") : f32[1, 3, 3]
%t = permute(%y, dims=[0, 2, 1]) : f32[1, 2, 3]
%u = convolution(%t, %f, activation="none", stride=[1], padding=[0], padding_end=[0], dilation=[1], transposed=false, output_padding=[0], groups=1) : f32[1, 1, 3]
%v = convolution(%t, %p, activation="none", stride=[1], padding=[1], padding_end=[1], dilation=[1], transposed=false, output_padding=[0], groups=1) : f32[1, 1, 3]
output %z
output %u
output %v
)");
  ASSERT_TRUE(named(graph, "v").valid());
  quantize_seen(graph, -2.55f, 2.55f);
  const auto step = static_cast<double>(graph.value(named(graph, "y")).encoding->scales[0]);
  EXPECT_NEAR(step, 0.02, 1e-6);
  const Node& norm = *graph.producer(named(graph, "y"));
  const auto b = graph.constant(norm.input(2))->values<float>();
  EXPECT_FLOAT_EQ(b[0], static_cast<float>(16 * step));
  EXPECT_FLOAT_EQ(b[1], static_cast<float>(-6 * step));
  const double lost[] = {0.311 - 16 * step, -0.128 + 6 * step};
  const Node& linear = *graph.producer(named(graph, "z"));
  const auto c = graph.constant(linear.input(2))->values<float>();
  for (size_t o = 0; o < 3; ++o)
    EXPECT_NEAR(c[o], 1 + static_cast<double>(2 * o + 1) * lost[0] + static_cast<double>(2 * o + 2) * lost[1],
                1e-5);
  const Node& inside = *graph.producer(named(graph, "u"));
  ASSERT_TRUE(inside.input(2).valid());
  EXPECT_NEAR(graph.constant(inside.input(2))->values<float>()[0], 10 * lost[0] + 20 * lost[1], 1e-5);
  EXPECT_FALSE(graph.producer(named(graph, "v"))->input(2).valid());  // its taps at the border read zeros
}

TEST(FitDevice, what_is_resampled_keeps_its_grid_but_for_cubic_curves) {
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    Graph graph = graph_of(cat(
        R"(
input %x: f32[1, 1, 2, 2]
%y = upsample(%x, mode=")",
        mode, R"(", size=[4, 4], scales=[0.0, 0.0], align_corners=false, antialias=false) : f32[1, 1, 4, 4]
%z = sigmoid(%y) : f32[1, 1, 4, 4]
output %z
)"));
    const auto plan = annotate(graph, {});
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    const bool shared = plan->group[named(graph, "x").index] == plan->group[named(graph, "y").index];
    EXPECT_EQ(shared, std::string_view(mode) != "cubic") << mode;
  }
}

}  // namespace
}  // namespace sixfold
