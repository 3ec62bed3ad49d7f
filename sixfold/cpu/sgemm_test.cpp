#include "sixfold/cpu/sgemm.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "sixfold/base/half.h"

namespace sixfold::cpu {
namespace {

TEST(Sgemm, our_own_is_the_definition) {
  std::mt19937 random(1);
  const auto numbers = [&](int64_t n) {
    std::vector<float> out(static_cast<size_t>(n));
    for (float& x : out) x = std::uniform_real_distribution<float>(-1, 1)(random);
    return out;
  };
  for (int round = 0; round < 300; ++round) {
    const auto pick = [&](int64_t most) { return std::uniform_int_distribution<int64_t>(1, most)(random); };
    Gemm g{};
    g.rows = pick(9);
    g.columns = pick(70);
    g.inner = pick(50);
    g.transposed = round % 2 == 0;
    g.alpha = round % 3 == 0 ? 0.5f : 1.0f;
    g.beta = round % 5 == 0 ? 1.0f : 0.0f;
    g.a_step = g.inner + round % 4;
    g.b_step = (g.transposed ? g.inner : g.columns) + round % 3;
    g.c_step = g.columns + round % 2;
    const auto a = numbers(g.rows * g.a_step), b = numbers((g.transposed ? g.columns : g.inner) * g.b_step);
    auto c = numbers(g.rows * g.c_step);
    const auto before = c;
    if (g.beta == 0) std::fill(c.begin(), c.end(), std::nanf(""));  // what is there does not count
    g.a = a.data();
    g.b = b.data();
    g.c = c.data();
    sgemm_simd(g);
    for (int64_t r = 0; r < g.rows; ++r) {
      for (int64_t k = 0; k < g.columns; ++k) {
        double sum = 0;
        for (int64_t i = 0; i < g.inner; ++i)
          sum +=
              static_cast<double>(a[static_cast<size_t>(r * g.a_step + i)]) *
              static_cast<double>(b[static_cast<size_t>(g.transposed ? k * g.b_step + i : i * g.b_step + k)]);
        const auto at = static_cast<size_t>(r * g.c_step + k);
        const double expected = g.alpha * sum + (g.beta == 0 ? 0.0 : g.beta * before[at]);
        ASSERT_NEAR(c[at], expected, 1e-5) << g.rows << 'x' << g.columns << 'x' << g.inner;
      }
    }
  }
}

TEST(Sgemm, channels_apart_and_taps_outside) {
  for (const int64_t channels : {1, 7, 16, 33, 70}) {
    const auto count = static_cast<size_t>(channels);
    std::vector<float> x(3 * count), w(3 * count), y(count + 1, 77);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<float>(i % 11) - 5, w[i] = static_cast<float>(i % 7) - 3;
    const float* const taps[] = {x.data(), nullptr, x.data() + 2 * count};
    channel_products(taps, w.data(), channels, y.data());
    for (size_t c = 0; c < count; ++c) EXPECT_EQ(y[c], x[c] * w[c] + x[2 * count + c] * w[2 * count + c]);
    EXPECT_EQ(y[count], 77);
  }
}

// All of 16 upper bits, with lower ones about the ties.
TEST(Sgemm, sums_become_the_halves_of_base) {
  std::vector<float> x, y;
  for (uint32_t high = 0; high < 0x10000; ++high)
    for (const uint32_t low : {0u, 0x0fffu, 0x1000u, 0x1001u, 0x3000u, 0xf000u})
      x.push_back(std::bit_cast<float>(high << 16 | low));
  y.resize(x.size());
  add_to_halves(x.data(), nullptr, static_cast<int64_t>(x.size()), y.data());
  size_t wrong = 0;
  for (size_t i = 0; i < x.size(); ++i)
    wrong += std::bit_cast<uint32_t>(y[i]) != std::bit_cast<uint32_t>(std::abs(x[i]) < 65520
                                                                          ? half_to_float(float_to_half(x[i]))
                                                                          : std::copysign(65536.0f, x[i]));
  EXPECT_EQ(wrong, 0u);
  const std::vector<float> bias(x.size(), 1);
  const std::vector<float> ones(x.size(), 2048);
  add_to_halves(ones.data(), bias.data(), static_cast<int64_t>(x.size()), y.data());
  EXPECT_EQ(y.front(), 2048);  // 2049 is a tie
}

}  // namespace
}  // namespace sixfold::cpu
