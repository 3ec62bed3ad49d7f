#include "sixfold/cpu/half_rows.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <vector>

#include "sixfold/cpu/qhalf.h"
#include "sixfold/emulator/numbers.h"

namespace sixfold::cpu {
namespace {

using emulator::DeviceHalf;
using emulator::to_half;
using emulator::to_ieee_half;

std::vector<float> all_halves() {
  std::vector<float> out(65536);
  for (size_t i = 0; i < out.size(); ++i) {
    DeviceHalf half;
    half.bits = static_cast<uint16_t>(i);
    out[i] = half;
  }
  return out;
}

// Floats of all exponents, with those that are between halves.
std::vector<float> many_floats() {
  std::vector<float> out;
  for (uint32_t high = 0; high < 65536; ++high)
    for (const uint32_t low : {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x2fffu, 0x3000u, 0xf000u})
      out.push_back(std::bit_cast<float>(high << 16 | low));
  return out;
}

uint32_t bits(float x) { return std::bit_cast<uint32_t>(x); }

TEST(HalfRows, RoundsAsTheDevicesUnitsDo) {
  const std::vector<float> x = many_floats();
  const float none = 1;
  std::vector<float> y(x.size());
  for (const HalfRounding rounding : {HalfRounding::vector, HalfRounding::ieee}) {
    const auto n = static_cast<int64_t>(x.size());
    half_pair(HalfOp::multiply, rounding, x.data(), 1, &none, 0, y.data(), n);
    for (size_t i = 0; i < x.size(); ++i) {
      if (x[i] != x[i]) continue;  // a product may change which number none is
      const float want = rounding == HalfRounding::vector ? to_half(x[i]) : to_ieee_half(x[i]);
      ASSERT_EQ(bits(y[i]), bits(want)) << x[i];
    }
  }
}

TEST(HalfRows, PairsAreThoseOfFloats) {
  const std::vector<float> halves = all_halves();
  std::mt19937 random(7);
  std::vector<float> a(9999), b(a.size()), y(a.size());
  for (size_t i = 0; i < a.size(); ++i) a[i] = halves[random() % 65536], b[i] = halves[random() % 65536];
  const auto check = [&](HalfOp op, const auto& f) {
    half_pair(op, HalfRounding::vector, a.data(), 1, b.data(), 1, y.data(), static_cast<int64_t>(a.size()));
    for (size_t i = 0; i < a.size(); ++i)
      ASSERT_EQ(bits(y[i]), bits(to_half(f(a[i], b[i])))) << int(op) << ": " << a[i] << ", " << b[i];
  };
  check(HalfOp::add, [](float p, float q) { return p + q; });
  check(HalfOp::subtract, [](float p, float q) { return p - q; });
  check(HalfOp::multiply, [](float p, float q) { return p * q; });
  check(HalfOp::maximum, [](float p, float q) { return p > q ? p : q; });
  check(HalfOp::minimum, [](float p, float q) { return p < q ? p : q; });
  check(HalfOp::slope, [](float p, float q) { return p < 0 ? p * q : p; });
  check(HalfOp::divide, [](float p, float q) {
    const double v = static_cast<double>(q), most = 65504;
    const double inverse = std::abs(v) * most < 1 ? std::copysign(most, v) : 1 / v;
    return static_cast<float>(static_cast<double>(p) * inverse);
  });
}

TEST(HalfRows, FindsTheEntryOfEveryHalf) {
  const std::vector<float> halves = all_halves();
  std::vector<float> table(65536), y(65536);
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i);
  lookup_halves(table.data(), halves.data(), y.data(), 65536);
  EXPECT_EQ(y, table);
}

TEST(HalfRows, ClampsAndTellsWhatIsLarge) {
  const std::vector<float> halves = all_halves();
  std::vector<float> y(halves.size());
  clamp_halves(halves.data(), y.data(), 65536, 0, 65536);
  for (size_t i = 0; i < y.size(); ++i)
    ASSERT_EQ(bits(y[i]), bits(halves[i] > 0 ? std::min(halves[i], 65536.0f) : 0.0f));
  std::vector<float> x(37, 1.0f);
  EXPECT_TRUE(all_below(x.data(), 37, 65536));
  for (const size_t i : {size_t{0}, size_t{20}, size_t{36}}) {
    x[i] = -65536;
    EXPECT_FALSE(all_below(x.data(), 37, 65536));
    x[i] = 1;
  }
}

TEST(HalfRows, BlendsInTheVectorUnitsOwnFloats) {
  const std::vector<float> halves = all_halves();
  std::mt19937 random(3);
  std::vector<double> a(20000), b(a.size()), f(a.size()), y(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<double>(halves[random() % 65536]);
    b[i] = i % 7 == 0 ? a[i] : i % 7 == 1 ? -a[i] : static_cast<double>(halves[random() % 65536]);
    f[i] = i % 3 == 0 ? 0 : i % 3 == 1 ? 0.25 : 0.75;
    if (i % 11 == 0) a[i] = i % 2 ? 0.0 : -0.0;
    if (i % 13 == 0) b[i] = i % 4 < 2 ? 0.0 : -0.0;
  }
  const auto n = static_cast<int64_t>(a.size());
  blend_own_row(a.data(), b.data(), f.data(), 1, y.data(), n);
  std::vector<double> z(a.size());
  const double quarter = 0.25;
  blend_own_row(y.data(), b.data(), &quarter, 0, z.data(), n);  // of what is no half
  for (size_t i = 0; i < a.size(); ++i) {
    const auto own = [](double x) { return QHalf::of(static_cast<float>(x)); };
    const QHalf first = f[i] == 0 ? own(a[i]) : own(a[i]) + own(f[i]) * (own(b[i]) - own(a[i]));
    ASSERT_EQ(bits(static_cast<float>(y[i])), bits(first.value())) << a[i] << ", " << b[i] << ", " << f[i];
    const QHalf second = first + own(0.25) * (own(b[i]) - first);
    ASSERT_EQ(bits(static_cast<float>(z[i])), bits(second.value())) << y[i] << ", " << b[i];
  }
}

}  // namespace
}  // namespace sixfold::cpu
