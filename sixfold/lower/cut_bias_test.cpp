#include "sixfold/lower/cut_bias.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace sixfold {
namespace {

Tensor floats(const std::vector<float>& values, Shape shape) {
  std::byte* bytes = nullptr;
  Tensor out = Tensor::allocate(DType::f32, std::move(shape), &bytes);
  std::copy(values.begin(), values.end(), reinterpret_cast<float*>(bytes));
  return out;
}

// By the device's arithmetic, the mean over random inputs of what a channel's result is off, in multiples of
// what its sums are cut to.
double shift(int weight_bits, bool has_bias) {
  constexpr int64_t kInputs = 9, kZero = 12345;
  const int64_t most = weight_bits == 16 ? 32639 : 127, cut = weight_bits == 16 ? 65536 : 256;
  std::mt19937 random(static_cast<unsigned>(weight_bits));
  std::vector<float> weights;
  for (int64_t i = 0; i < kInputs; ++i)
    weights.push_back(static_cast<float>(static_cast<int64_t>(random() % (2 * most)) - most));
  const Encoding x{.storage = DType::u16, .quant_max = 65535, .scales = {0.25f}, .zero_points = {kZero}};
  const Encoding w{.storage = weight_bits == 16 ? DType::i16 : DType::i8,
                   .quant_min = -most,
                   .quant_max = most,
                   .axis = 0,
                   .scales = {0.5f},
                   .zero_points = {0}};
  for (float& v : weights) v *= 0.5f;
  const double wanted = has_bias ? -98765.4 : 0;
  const Tensor bias = floats({static_cast<float>(wanted / 8)}, {1}), weight = floats(weights, {1, kInputs});
  EXPECT_EQ(cut_of_sums(x, w), cut);
  const Tensor made = biases_of_cut_sums(has_bias ? &bias : nullptr, &weight, x, w, 1);
  const int64_t number = made.values<int32_t>()[0];
  const int64_t whole = weight_bits == 16 ? std::llround(static_cast<double>(number) / 65536) : number / cut;
  double sum_off = 0;
  constexpr int kRuns = 20000;
  for (int run = 0; run < kRuns; ++run) {
    int64_t sum = 0, zero = 0;
    for (const float v : weights) {
      const auto integer = static_cast<int64_t>(v * 2);
      sum += static_cast<int64_t>(random() % 65536) * integer;
      zero += kZero * integer;
    }
    const double ideal = static_cast<double>(sum - zero) + wanted;
    const auto floor = [&](int64_t v) { return v >= 0 ? v / cut : -((-v + cut - 1) / cut); };
    const int64_t got = floor(sum) + whole - floor(zero + cut / 2);
    sum_off += static_cast<double>(got) - ideal / static_cast<double>(cut);
  }
  return sum_off / kRuns;
}

TEST(CutBias, results_are_in_the_middle_of_what_is_cut) {
  for (const int bits : {8, 16})
    for (const bool has_bias : {false, true})
      EXPECT_LE(std::fabs(shift(bits, has_bias)), 0.51) << bits << has_bias;
}

TEST(CutBias, sums_of_8_bit_activations_are_not_cut) {
  const Encoding x{.storage = DType::u8, .quant_max = 255, .scales = {1}, .zero_points = {0}};
  const Encoding w{
      .storage = DType::i8, .quant_min = -127, .quant_max = 127, .scales = {1}, .zero_points = {0}};
  EXPECT_EQ(cut_of_sums(x, w), 1);
}

}  // namespace
}  // namespace sixfold
