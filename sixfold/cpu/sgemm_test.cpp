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
    sgemm_plain(g);
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

// One small product among large ones that cancel, and what is left is rounded once.
TEST(Sgemm, sums_of_halves_are_exact) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    const auto pick = [&](int64_t most) { return std::uniform_int_distribution<int64_t>(1, most)(random); };
    Gemm g{.rows = pick(9), .columns = pick(40), .inner = pick(50)};
    const auto numbers = [&](int64_t n) {
      std::vector<float> out(static_cast<size_t>(n));
      for (float& x : out)
        x = half_to_float(float_to_half(std::ldexp(std::uniform_real_distribution<float>(-1, 1)(random),
                                                   static_cast<int>(pick(20)) - 10)));
      return out;
    };
    g.a_step = g.inner, g.b_step = g.columns + 1, g.c_step = g.columns;
    const auto a = numbers(g.rows * g.a_step), b = numbers(g.inner * g.b_step);
    std::vector<float> c(static_cast<size_t>(g.rows * g.c_step), std::nanf(""));
    g.a = a.data(), g.b = b.data(), g.c = c.data();
    sgemm_simd(g);
    for (int64_t at = 0; at < g.rows * g.columns; ++at) {
      const int64_t r = at / g.columns, k = at % g.columns;
      double sum = 0;  // 22 bits and 40 of exponents
      for (int64_t i = 0; i < g.inner; ++i)
        sum += static_cast<double>(a[static_cast<size_t>(r * g.a_step + i)]) *
               static_cast<double>(b[static_cast<size_t>(i * g.b_step + k)]);
      ASSERT_EQ(c[static_cast<size_t>(at)], static_cast<float>(sum)) << g.rows << 'x' << g.columns;
    }
  }
  const float a[] = {1, 1, 1}, b[] = {32768, 0x1p-20f, -32768};
  float c = 0;
  sgemm_simd(
      {.rows = 1, .columns = 1, .inner = 3, .a = a, .a_step = 3, .b = b, .b_step = 1, .c = &c, .c_step = 1});
  EXPECT_EQ(c, 0x1p-20f);
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
