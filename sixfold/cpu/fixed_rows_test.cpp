// Rows of fixed-point elements beside the formulas of their header, element by element.
#include "sixfold/cpu/fixed_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "sixfold/cpu/qfloat.h"

namespace sixfold::cpu {
namespace {

constexpr Stored kStored[] = {Stored::u8, Stored::s8, Stored::u16, Stored::s16};
constexpr int32_t lowest(Stored s) { return s == Stored::s8 ? -128 : s == Stored::s16 ? -32768 : 0; }
constexpr int32_t highest(Stored s) { return lowest(s) + (is_wide(s) ? 65535 : 255); }

// Elements as they are stored, and back.
std::vector<std::byte> stored(const std::vector<int32_t>& x, Stored s) {
  const size_t size = is_wide(s) ? 2 : 1;
  std::vector<std::byte> out(x.size() * size);
  for (size_t i = 0; i < x.size(); ++i) std::memcpy(out.data() + i * size, &x[i], size);
  return out;
}
std::vector<int32_t> numbers(const std::vector<std::byte>& x, Stored s) {
  const size_t size = is_wide(s) ? 2 : 1;
  std::vector<int32_t> out;
  for (size_t i = 0; i < x.size(); i += size) {
    uint16_t v = 0;
    std::memcpy(&v, x.data() + i, size);
    const int32_t wrap = highest(s) - lowest(s) + 1;
    out.push_back(v > highest(s) ? v - wrap : v);
  }
  return out;
}

struct Random {
  std::mt19937 rng{11};
  int32_t pick(int32_t low, int32_t high) { return std::uniform_int_distribution<int32_t>(low, high)(rng); }
  std::vector<int32_t> elements(Stored s, size_t n) {
    std::vector<int32_t> x(n);
    for (int32_t& v : x) v = pick(0, 9) ? pick(lowest(s), highest(s)) : pick(0, 1) ? lowest(s) : highest(s);
    return x;
  }
};

double away(double v) { return v < 0 ? -std::floor(-v + 0.5) : std::floor(v + 0.5); }
int32_t cut(double q, int32_t min, int32_t max) {
  return static_cast<int32_t>(std::min<double>(max, std::max<double>(min, q)));
}

TEST(fixed_rows, other_encodings_are_what_integers_give) {
  Random random;
  for (const Stored from : kStored)
    for (const Stored to : kStored)
      for (int round = 0; round < 20; ++round) {
        const auto n = static_cast<size_t>(random.pick(1, 77));
        const int64_t multiplier = random.pick(1, 1 << 30), shift = random.pick(12, 46);
        const int64_t offset = random.pick(-70000, 70000), eighths = random.pick(-9, 9);
        const int64_t place = random.pick(0, 1), half = int64_t{1} << (shift - 1);
        const bool by_place = random.pick(0, 1) != 0;
        const FixedRecode r{.from = from,
                            .to = to,
                            .offset = static_cast<double>(offset),
                            .scale = static_cast<double>(multiplier),
                            .add = {static_cast<double>(half), by_place ? 0 : static_cast<double>(half)},
                            .down = std::ldexp(1.0, -static_cast<int>(shift)),
                            .more = static_cast<double>(eighths),
                            .last = 0.125,
                            .zero = 11,
                            .min = static_cast<double>(lowest(to)),
                            .max = static_cast<double>(highest(to))};
        const std::vector<int32_t> x = random.elements(from, n);
        std::vector<std::byte> y(n * (is_wide(to) ? 2 : 1));
        recode_row(r, stored(x, from).data(), y.data(), static_cast<int64_t>(n), place);
        const std::vector<int32_t> got = numbers(y, to);
        for (size_t i = 0; i < n; ++i) {
          const bool cuts = by_place && (place + static_cast<int64_t>(i)) % 2 != 0;
          const int64_t parts = ((x[i] + offset) * multiplier + (cuts ? 0 : half)) >> shift;
          const int64_t want = std::clamp<int64_t>(((parts + eighths) >> 3) + 11, lowest(to), highest(to));
          ASSERT_EQ(got[i], want) << i << " of " << n;
        }
      }
}

TEST(fixed_rows, hard_swish_of_wide_sums_has_a_gate_of_20_bits) {
  Random random;
  for (const size_t n : {1u, 7u, 16u, 61u}) {
    std::vector<int32_t> sums(n);
    std::vector<double> up(n, 256), far(n, 0x1p24), slope(n), middle(n), open(n), whole(n);
    for (size_t i = 0; i < n; ++i) {
      sums[i] = static_cast<int32_t>(random.pick(-200000, 200000));
      slope[i] = static_cast<double>(random.pick(1 << 20, 1 << 22)) * 0x1p-26;
      whole[i] = static_cast<double>(random.pick(1 << 21, 1 << 22)) / 4;
      open[i] = std::floor(whole[i]), middle[i] = std::floor(whole[i] / 2);
    }
    std::vector<uint16_t> y(n);
    hard_swish_sums({up.data(), far.data(), slope.data(), middle.data(), open.data(), whole.data(), 6000},
                    sums.data(), y.data(), static_cast<int64_t>(n));
    for (size_t i = 0; i < n; ++i) {
      const double t = sums[i] * 512.0 + 1;
      double g = std::floor(std::clamp(t, -0x1p24, 0x1p24) * slope[i]) + middle[i];
      g = g >= open[i] ? whole[i] : std::max(g, 0.0);
      ASSERT_EQ(y[i], cut(std::floor(t * g * 0x1p-28) + 6000, 0, 65535)) << sums[i];
    }
  }
}

TEST(fixed_rows, slopes_of_words_wrap_around_at_32_bits) {
  Random random;
  for (const size_t n : {1u, 7u, 16u, 61u})
    for (const int64_t step : {0, 1}) {
      const KinkRow row{.offset = -static_cast<int32_t>(random.pick(0, 65535)),
                        .above = static_cast<int32_t>(random.pick(4096, 32767)),
                        .shift = static_cast<int32_t>(random.pick(1, 15)),
                        .zero = static_cast<int32_t>(random.pick(0, 65535))};
      std::vector<uint16_t> x(n), y(n);
      std::vector<int32_t> below(n);
      for (size_t i = 0; i < n; ++i) {
        x[i] = static_cast<uint16_t>(random.pick(0, 65535));
        below[i] = static_cast<int32_t>(random.pick(-32767, 32767));
      }
      kink_row(row, x.data(), below.data(), step, y.data(), static_cast<int64_t>(n));
      for (size_t i = 0; i < n; ++i) {
        const int64_t v = x[i] + row.offset, slope = v < 0 ? below[step ? i : 0] : row.above;
        const auto sum = static_cast<int32_t>(v * slope + (int64_t{row.zero} << row.shift));
        const int64_t q = (int64_t{sum} + (int64_t{1} << (row.shift - 1))) >> row.shift;
        ASSERT_EQ(y[i], std::clamp<int64_t>(q, 0, 65535)) << x[i];
      }
    }
}

TEST(fixed_rows, slopes_of_sums_have_a_factor_for_each_side) {
  Random random;
  for (const size_t n : {1u, 7u, 16u, 61u})
    for (const Stored stored : {Stored::u8, Stored::u16}) {
      std::vector<int32_t> sums(n);
      std::vector<double> up[2], factor[2];
      for (size_t i = 0; i < n; ++i) {
        sums[i] = static_cast<int32_t>(random.pick(-200000, 200000));
        for (const int side : {0, 1}) {
          up[side].push_back(std::ldexp(1.0, static_cast<int>(random.pick(-8, 8))));
          factor[side].push_back(static_cast<double>(random.pick(1 << 21, 1 << 22)) * 0x1p-30);
        }
      }
      std::vector<std::byte> y(n * (is_wide(stored) ? 2 : 1));
      slope_sums({{up[0].data(), up[1].data()}, {factor[0].data(), factor[1].data()}, 0.5, 77}, sums.data(),
                 stored, y.data(), static_cast<int64_t>(n));
      const std::vector<int32_t> got = numbers(y, stored);
      for (size_t i = 0; i < n; ++i) {
        const size_t side = sums[i] < 0 ? 0 : 1;
        const double t = 2 * std::floor(sums[i] * up[side][i]) + 1;
        const double want = std::floor(t * factor[side][i] + 0.5) + 77;
        ASSERT_EQ(got[i], std::clamp<double>(want, lowest(stored), highest(stored))) << sums[i];
      }
    }
}

TEST(fixed_rows, hard_swish_of_byte_sums_has_a_gate_of_few_bits) {
  Random random;
  for (const size_t n : {1u, 7u, 16u, 61u}) {
    std::vector<int32_t> sums(n), left(n), right(n), fine_left(n), fine_right(n), odd(n), round(n), slope(n),
        middle(n), most(n), low(n, -20000), high(n, 20000), shut(n, -9000), open(n, 9000);
    for (size_t i = 0; i < n; ++i) {
      sums[i] = random.pick(-30000, 30000), slope[i] = random.pick(60, 1200);
      (i % 2 ? left : right)[i] = random.pick(0, 3), (i % 3 ? fine_left : fine_right)[i] = random.pick(0, 3);
      odd[i] = random.pick(0, 1), round[i] = odd[i] ? 0 : 2048;
      most[i] = random.pick(1000, 2040), middle[i] = (most[i] + 1) / 2;
    }
    std::vector<uint8_t> y(n);
    const SwishRow row{.left = left.data(),
                       .right = right.data(),
                       .fine_left = fine_left.data(),
                       .fine_right = fine_right.data(),
                       .odd = odd.data(),
                       .round = round.data(),
                       .slope = slope.data(),
                       .middle = middle.data(),
                       .most = most.data(),
                       .low = low.data(),
                       .high = high.data(),
                       .shut = shut.data(),
                       .open = open.data(),
                       .zero = 19};
    hard_swish_bytes(row, sums.data(), y.data(), static_cast<int64_t>(n));
    for (size_t i = 0; i < n; ++i) {
      const double half = std::ldexp(cut(sums[i], -20000, 20000), left[i] - right[i] - 1);
      const double x = 2 * std::floor(half) + 1;
      const double fine = std::ldexp(cut(sums[i], -9000, 9000), fine_left[i] - fine_right[i]);
      const double t = odd[i] ? 2 * std::floor(fine / 2) + 1 : std::floor(fine);
      const double gate = cut(std::floor((t * slope[i] + round[i]) / 4096) + middle[i], 0, most[i]);
      ASSERT_EQ(y[i], cut(std::floor((x * gate + 32768) / 65536) + 19, 0, 255)) << sums[i];
    }
  }
}

TEST(fixed_rows, reals_are_rounded_to_the_nearest) {
  Random random;
  for (const Stored s : kStored) {
    const RealCode code{.scale = 0.0625, .offset = 5 - lowest(s) - 100, .min = lowest(s), .max = highest(s)};
    std::vector<float> x = {0.03125f,
                            -0.03125f,
                            0.09375f,
                            0.0f,
                            -0.0f,
                            1e30f,
                            -1e30f,
                            std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()};
    for (int i = 0; i < 60; ++i) x.push_back(static_cast<float>(random.pick(-40000, 40000)) / 1024);
    x.push_back(std::numeric_limits<float>::quiet_NaN());
    for (size_t n = 1; n <= x.size(); n += n < 40 ? 1 : 7) {  // the last ones first
      const float* from = x.data() + x.size() - n;
      std::vector<std::byte> y(n * (is_wide(s) ? 2 : 1));
      quantize_row(from, RealType::f32, s, code, y.data(), static_cast<int64_t>(n));
      const std::vector<int32_t> got = numbers(y, s);
      for (size_t i = 0; i < n; ++i) {
        double v = static_cast<double>(from[i]) / code.scale;
        int e = 0;
        if (!is_wide(s) && std::isfinite(v)) {  // to 11 bits, ties to even
          const double f = std::frexp(v, &e);
          v = std::ldexp(std::nearbyint(std::ldexp(f, 11)), e - 11);
        }
        const int32_t want = std::isnan(v) ? code.min : cut(away(v) - code.offset, code.min, code.max);
        ASSERT_EQ(got[i], want) << from[i] << " as " << static_cast<int>(s);
      }
    }
  }
}

TEST(fixed_rows, pairs_are_rounded_once) {
  Random random;
  for (int round = 0; round < 200; ++round) {
    FixedPair p;
    p.op = static_cast<PairOp>(random.pick(0, 3));
    p.stored = kStored[random.pick(0, 3)];
    if (p.op == PairOp::multiply && is_wide(p.stored)) continue;
    const int32_t low = lowest(p.stored), high = highest(p.stored);
    p.scale_a = random.pick(1, 16383);
    p.scale_b = p.op == PairOp::add ? random.pick(-16000, 16000) : random.pick(1, 16383);
    p.shift = random.pick(10, 16);
    p.offset_a = -random.pick(low, high), p.offset_b = -random.pick(low, high);
    p.zero = random.pick(low, high), p.min = low, p.max = random.pick(0, 1) ? high : p.zero;
    p.constant = random.pick(-300, 300);
    const bool chooses = p.op == PairOp::maximum || p.op == PairOp::minimum;
    if (chooses && is_wide(p.stored)) p.more_b = random.pick(-100000, 100000);
    const auto n = static_cast<size_t>(random.pick(1, 70));
    const std::vector<int32_t> a = random.elements(p.stored, n), b = random.elements(p.stored, n);
    const int64_t step_a = random.pick(0, 3) != 0, step_b = random.pick(0, 3) != 0;
    std::vector<std::byte> y(n * (is_wide(p.stored) ? 2 : 1));
    fixed_pair(p, stored(a, p.stored).data(), step_a, stored(b, p.stored).data(), step_b, y.data(),
               static_cast<int64_t>(n));
    const std::vector<int32_t> got = numbers(y, p.stored);
    for (size_t i = 0; i < n; ++i) {
      const int64_t u = a[step_a ? i : 0] + p.offset_a, v = b[step_b ? i : 0] + p.offset_b;
      const int64_t x = u * p.scale_a, z = v * p.scale_b + p.more_b;
      const int64_t sum = p.op == PairOp::add        ? x + z
                          : p.op == PairOp::multiply ? x * v
                          : p.op == PairOp::maximum  ? std::max(x, z)
                                                     : std::min(x, z);
      const int64_t q = ((sum + (int64_t{1} << (p.shift - 1)) + p.constant) >> p.shift) + p.zero;
      ASSERT_EQ(got[i], std::clamp<int64_t>(q, p.min, p.max))
          << "op " << static_cast<int>(p.op) << " at " << i;
    }
  }
}

TEST(fixed_rows, wide_products_are_rounded_to_eighths_and_then_whole) {
  Random random;
  for (int round = 0; round < 200; ++round) {
    WideProduct p{.stored = random.pick(0, 1) ? Stored::u16 : Stored::s16};
    const int32_t low = lowest(p.stored), high = highest(p.stored);
    p.offset_a = -random.pick(low, high), p.offset_b = -random.pick(low, high);
    p.moved = random.pick(-60000, 60000) * 30000;
    p.scale = random.pick(1, 30000) * 70000;
    p.back = random.pick(-2000000, 2000000), p.left = random.pick(0, 4) == 0 ? random.pick(1, 9) : 0;
    p.low = -random.pick(1 << 20, 1 << 24), p.high = random.pick(1 << 20, 1 << 24);
    p.zero = random.pick(low, high), p.min = low, p.max = random.pick(0, 1) ? high : p.zero;
    const auto n = static_cast<size_t>(random.pick(1, 70));
    const std::vector<int32_t> a = random.elements(p.stored, n), b = random.elements(p.stored, n);
    const int64_t step_a = random.pick(0, 3) != 0, step_b = random.pick(0, 3) != 0;
    std::vector<std::byte> y(n * 2);
    wide_product(p, stored(a, p.stored).data(), step_a, stored(b, p.stored).data(), step_b, y.data(),
                 static_cast<int64_t>(n));
    const std::vector<int32_t> got = numbers(y, p.stored);
    for (size_t i = 0; i < n; ++i) {
      const int64_t u = a[step_a ? i : 0] + p.offset_a, v = b[step_b ? i : 0] + p.offset_b;
      const auto x = static_cast<int32_t>(static_cast<uint32_t>(u * v + p.moved));
      const int64_t t = (int64_t{x} * p.scale + (int64_t{1} << 30)) >> 31;
      const int64_t cut = std::clamp<int64_t>(t, p.low, p.high);
      const int64_t q = ((cut + p.back) >> 3) * (int64_t{1} << p.left) + p.zero;
      ASSERT_EQ(got[i], std::clamp<int64_t>(q, p.min, p.max)) << "round " << round << " at " << i;
    }
  }
}

TEST(fixed_rows, norms_and_softmax_have_the_bits_of_plain_doubles) {
  Random random;
  std::vector<uint32_t> tables[2], scratch(100);  // of 8 and 16 bits
  for (int wide = 0; wide < 2; ++wide)
    for (int d = 0; d < (wide ? 65536 : 256); ++d)
      tables[wide].push_back(
          static_cast<uint32_t>(std::lround(std::exp(d / (wide ? -9000.0 : -40.0)) * 0x1p30)));
  for (int round = 0; round < 100; ++round) {
    const Stored in = kStored[random.pick(0, 3)], out = kStored[random.pick(0, 3)];
    const auto n = static_cast<size_t>(random.pick(2, 70));
    const std::vector<int32_t> x = random.elements(in, n);
    std::vector<double> gain(n), bias(n);
    for (double& g : gain) g = random.pick(-100, 300) / 64.0;
    for (double& b : bias) b = random.pick(-100, 100) / 37.0;
    NormRow norm{.in = in, .out = out, .epsilon = 1e-5, .rms = random.pick(0, 2) == 0};
    norm.from = {.scale = 0.01, .offset = -random.pick(lowest(in), highest(in))};
    norm.to = {.scale = is_wide(out) ? 0.0003 : 0.05,
               .offset = -random.pick(lowest(out), highest(out)),
               .min = lowest(out),
               .max = highest(out)};
    if (random.pick(0, 2)) norm.gain = gain.data();
    if (random.pick(0, 2)) norm.bias = bias.data();
    std::vector<std::byte> y(n * (is_wide(out) ? 2 : 1));
    norm_row(norm, stored(x, in).data(), y.data(), static_cast<int64_t>(n));
    std::vector<int32_t> got = numbers(y, out);
    int64_t sum = 0, squares = 0;
    for (const int32_t v : x)
      sum += v + norm.from.offset, squares += int64_t{v + norm.from.offset} * (v + norm.from.offset);
    const auto count = static_cast<double>(n);
    const double mean = norm.rms ? 0 : static_cast<double>(sum) / count;
    const __int128 spread = static_cast<__int128>(squares) * static_cast<int64_t>(n) -
                            (norm.rms ? 0 : static_cast<__int128>(sum) * sum);
    const double variance =
        static_cast<double>(spread) / (count * count) * (norm.from.scale * norm.from.scale);
    const double factor = norm.from.scale / std::sqrt(variance + norm.epsilon) / norm.to.scale;
    for (size_t i = 0; i < n; ++i) {
      volatile double v = (x[i] + norm.from.offset - mean) * factor;  // each product rounded by itself
      if (norm.gain) v = v * gain[i];
      volatile const double step = norm.bias ? bias[i] * (1 / norm.to.scale) : 0;
      ASSERT_EQ(got[i], cut(away(v + step) - norm.to.offset, norm.to.min, norm.to.max)) << "norm at " << i;
    }
    const std::vector<uint32_t>& exponents = tables[is_wide(in)];
    const SoftmaxRow softmax{.in = in,
                             .out = out,
                             .exponents = exponents.data(),
                             .code = {.scale = 1.0 / (highest(out) - lowest(out)),
                                      .offset = -lowest(out),
                                      .min = lowest(out),
                                      .max = highest(out)}};
    softmax_row(softmax, stored(x, in).data(), y.data(), static_cast<int64_t>(n), scratch.data());
    got = numbers(y, out);
    const int32_t top = *std::max_element(x.begin(), x.end());
    uint64_t total = 0;
    for (const int32_t v : x) total += exponents[static_cast<size_t>(top - v)];
    for (size_t i = 0; i < n; ++i) {
      volatile const double share =
          exponents[static_cast<size_t>(top - x[i])] * (1 / softmax.code.scale / static_cast<double>(total));
      ASSERT_EQ(got[i], cut(std::floor(share + 0.5) - softmax.code.offset, lowest(out), highest(out)))
          << "softmax at " << i;
    }
    for (const auto way : {SoftmaxRow::Reciprocal::bytes, SoftmaxRow::Reciprocal::words}) {
      const bool bytes = way == SoftmaxRow::Reciprocal::bytes;
      SoftmaxRow device = softmax;
      device.reciprocal = way;
      if (bytes) device.code.scale = 3.0 / 65536;
      // Sums of 8 bits are small numbers, so that some are below 512.
      std::vector<uint32_t> small = exponents;
      for (uint32_t& e : small) e >>= bytes ? 15 + round % 4 : 0;
      device.exponents = small.data();
      softmax_row(device, stored(x, in).data(), y.data(), static_cast<int64_t>(n), scratch.data());
      got = numbers(y, out);
      uint64_t sum = 0;
      for (const int32_t v : x) sum += small[static_cast<size_t>(top - v)];
      // Newton's steps for the reciprocal of sum * mantissa, in whole numbers of 16 bits or less.
      int exponent = 0;
      const auto mantissa =
          static_cast<uint64_t>(std::floor(std::frexp(device.code.scale, &exponent) * 65536));
      const uint64_t scaled = bytes ? sum * 3 / 256 : sum * mantissa / 65536;
      const int bits = std::bit_width(scaled), places = std::min(16, bits - 1);
      uint64_t reciprocal = uint64_t{1} << (places - 1);
      for (int step = 0; step < 5; ++step) {
        const uint64_t product = scaled * reciprocal >> places;
        reciprocal = reciprocal * ((uint64_t{1} << bits) - product) >> (bits - 1);
      }
      const int shift = bytes ? 9 : 1 - exponent;
      const double per_sum = std::ldexp(static_cast<double>(reciprocal), shift - bits - places);
      const double half = bytes && scaled >= 512 ? 0.5 : 0;
      for (size_t i = 0; i < n; ++i) {
        volatile const double share = small[static_cast<size_t>(top - x[i])] * per_sum;
        ASSERT_EQ(got[i], cut(std::floor(share + half) - softmax.code.offset, lowest(out), highest(out)))
            << "softmax of the device at " << i;
      }
    }
  }
}

// The vector unit's floats as their significands and exponents say.
double value(QFloat q) { return std::ldexp(q.significand, q.exponent - 23); }
double product(double a, double b) {
  if (a == 0 || b == 0) return 0;
  int ea = 0, eb = 0;
  const double units = std::frexp(a, &ea) * std::frexp(b, &eb) * 0x1p25;
  return value(QFloat::rounded(units, ea + eb - 2));
}

constexpr int64_t kOneRow[] = {0};

TEST(fixed_rows, norms_of_rows_beside_each_other_are_those_of_each) {
  Random random;
  for (int round = 0; round < 200; ++round) {
    const Stored in = kStored[random.pick(0, 3)], out = kStored[random.pick(0, 3)];
    const auto n = static_cast<size_t>(random.pick(1, 70)), rows = static_cast<size_t>(random.pick(1, 20));
    const std::vector<int32_t> x = random.elements(in, n * rows);
    const std::vector<std::byte> from = stored(x, in);
    std::vector<double> gain(n), bias(n);
    for (double& g : gain) g = random.pick(-32768, 32767);
    for (double& b : bias) b = random.pick(-1000, 1000);
    const DeviceNormRow norm{.in = in,
                             .out = out,
                             .rms = random.pick(0, 1) != 0,
                             .offset = -random.pick(0, 200),
                             .epsilon = 0.25f,
                             .step = 0.01f,
                             .gain = gain.data(),
                             .bias = bias.data()};
    const size_t size = is_wide(out) ? 2 : 1;
    std::vector<int64_t> starts(rows);
    for (size_t r = 0; r < rows; ++r) starts[r] = static_cast<int64_t>(r * n);
    std::vector<std::byte> together(n * rows * size), apart(n * rows * size);
    device_norm_rows(norm, from.data(), together.data(), static_cast<int64_t>(n), starts);
    for (const int64_t& start : starts)
      device_norm_rows(norm, from.data(), apart.data(), static_cast<int64_t>(n), {&start, 1});
    ASSERT_EQ(together, apart) << round;
  }
}

TEST(fixed_rows, wide_norms_are_products_of_the_vector_units_floats) {
  Random random;
  for (int round = 0; round < 200; ++round) {
    const Stored out = kStored[random.pick(0, 3)];
    const auto n = static_cast<size_t>(int64_t{1} << random.pick(0, 6));
    // Equal squares of a power of two, and an epsilon that leaves the inverse root next to 2^-8.
    std::vector<int32_t> x(n);
    for (int32_t& v : x) v = 1000 + (random.pick(0, 1) ? 256 : -256);
    std::vector<double> gain(n), bias(n);
    for (double& g : gain) g = static_cast<float>(random.pick(-300000, 300000)) / 37.0f;
    for (double& b : bias) b = static_cast<float>(random.pick(0, 65535)) + 0.25;
    DeviceNormRow norm{.out = out, .rms = true, .offset = -1000, .gain = gain.data(), .bias = bias.data()};
    std::vector<std::byte> y(n * (is_wide(out) ? 2 : 1));
    device_norm_rows(norm, stored(x, Stored::u16).data(), y.data(), static_cast<int64_t>(n), kOneRow);
    std::vector<int32_t> got = numbers(y, out);
    const double root = 0x1p-8 * (1 - 3 * 0x1p-24);  // what Newton's steps make of 65537, a qfloat for 65536
    for (size_t i = 0; i < n; ++i) {
      const double v = product(x[i] - 1000, product(gain[i], root));
      ASSERT_EQ(got[i], cut(std::floor(v + bias[i]) + lowest(out), lowest(out), highest(out))) << i;
    }
    norm.rms = false;
    norm.step = 2;
    norm.epsilon = 65536;
    for (double& g : gain) g = random.pick(-32768, 32767);
    for (int32_t& v : x) v = 4096;  // the mean of equal numbers is beside them, but they have no deviation
    device_norm_rows(norm, stored(x, Stored::u16).data(), y.data(), static_cast<int64_t>(n), kOneRow);
    got = numbers(y, out);
    for (size_t i = 0; i < n; ++i)
      ASSERT_EQ(got[i], cut(std::floor(bias[i] + 0.5) + lowest(out), lowest(out), highest(out))) << i;
  }
}

}  // namespace
}  // namespace sixfold::cpu
