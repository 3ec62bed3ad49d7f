#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "sixfold/cpu/quant_conv.h"

namespace sixfold::cpu {
namespace {

struct Case {
  QuantWindow w;
  QuantInput in;
  QuantOutput out;
  std::vector<int32_t> x;        // stored numbers, unsigned
  std::vector<int32_t> weights;  // [tap][input][output]
  std::vector<int64_t> bias;     // [output]
  std::vector<double> factor;    // [output]
};

// What the window means, in 64 bits.
std::vector<int32_t> expected(const Case& c) {
  const QuantWindow& w = c.w;
  std::vector<int32_t> result;
  for (int64_t row = 0; row < w.rows(); ++row) {
    const int64_t ox = row % w.out_width, oy = row / w.out_width % w.out_height,
                  n = row / w.out_width / w.out_height;
    for (int64_t o = 0; o < w.out_channels; ++o) {
      int64_t sum = 0, total = 0;
      for (int64_t t = 0; t < w.taps(); ++t) {
        const int64_t y = oy * w.stride_y - w.pad_top + t / w.width * w.dilation_y;
        const int64_t x = ox * w.stride_x - w.pad_left + t % w.width * w.dilation_x;
        const bool inside = y >= 0 && y < w.in_height && x >= 0 && x < w.in_width;
        for (int64_t i = 0; i < w.inputs(); ++i) {
          const int64_t ch = o / w.outputs() * w.inputs() + i;
          const int64_t value =
              inside ? c.x[static_cast<size_t>(((n * w.in_height + y) * w.in_width + x) * w.in_channels + ch)]
                     : c.in.zero_point;
          const int64_t f = c.weights[static_cast<size_t>((t * w.inputs() + i) * w.out_channels + o)];
          sum += value * f;
          total += f;
        }
      }
      const auto at = static_cast<size_t>(o);
      sum = (c.in.wide && c.out.rounding != Rounding::vector ? sum >> 8 : sum) +
            fold_bias(c.out.rounding, c.bias[at], c.in.zero_point, total);
      QuantChannels channels = {};
      EXPECT_TRUE(set_factor(channels, 0, c.out.rounding, c.factor[at]));
      QuantOutput out = c.out;
      out.lefts = channels.left[0] > 0;
      result.push_back(requantize(static_cast<int32_t>(sum), channels, 0, out));
    }
  }
  return result;
}

std::vector<int32_t> run(const Case& c, const QuantKernels& kernels, Pool& pool) {
  const QuantWindow& w = c.w;
  const QuantLayout l = quant_layout(w);
  std::vector<std::byte> memory(static_cast<size_t>(l.bytes) + 64);
  std::byte* packed = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
  pack_quant(
      w,
      [&](int64_t t, int64_t i, int64_t first, std::span<int32_t> outputs) {
        const auto at = c.weights.begin() + (t * w.inputs() + i) * w.out_channels + first;
        std::copy_n(at, outputs.size(), outputs.begin());
      },
      packed);
  QuantChannels* channels = quant_channels(w, packed);
  QuantOutput out = c.out;
  for (int64_t o = 0; o < w.out_channels; ++o) {
    const auto [block, i] = quant_place(w, o);
    const auto at = static_cast<size_t>(o);
    channels[block].bias[i] = fold_bias(out.rounding, c.bias[at], c.in.zero_point, channels[block].sum[i]);
    EXPECT_TRUE(set_factor(channels[block], i, out.rounding, c.factor[at]));
    out.lefts |= channels[block].left[i] > 0;
  }
  const size_t element = c.in.wide ? 2 : 1;
  std::vector<std::byte> x(c.x.size() * element);  // exact: sanitizers see a byte read too many
  for (size_t i = 0; i < c.x.size(); ++i) {
    const auto v = static_cast<uint16_t>(c.x[i] ^ (c.in.flip ? c.in.wide ? 0x8000 : 0x80 : 0));
    std::memcpy(x.data() + i * element, &v, element);
  }
  QuantInput in = c.in;
  in.data = x.data();
  std::vector<std::byte> scratch(static_cast<size_t>(quant_scratch(w, in)));
  const int64_t size = out.rounding == Rounding::none ? 4 : out.wide ? 2 : 1, step = w.out_channels * size;
  std::vector<std::byte> y(static_cast<size_t>(w.rows() * step), std::byte{0xEE});
  run_quant(w, packed, in, out, {y.data(), step, step * w.out_width, step * w.out_width * w.out_height},
            scratch.data(), pool, kernels);
  std::vector<int32_t> result;
  for (size_t i = 0; i < y.size(); i += static_cast<size_t>(size)) {
    int32_t v = 0;
    std::memcpy(&v, y.data() + i, static_cast<size_t>(size));
    result.push_back(v);
  }
  return result;
}

Case random_case(std::mt19937& rng) {
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(rng);
  };
  Case c;
  QuantWindow& w = c.w;
  const bool linear = pick(0, 3) == 0;
  w.batch = pick(1, 2);
  w.height = linear ? 1 : pick(1, 3);
  w.width = linear ? 1 : pick(1, 5);
  w.stride_y = pick(1, 2), w.stride_x = pick(1, 2);
  w.dilation_y = pick(1, 2), w.dilation_x = pick(1, 2);
  const int64_t kind = pick(0, 3);
  if (kind == 0 && pick(0, 2)) {  // the sizes that depthwise kernels know
    w.height = w.width = pick(0, 2) ? 3 : 5;
    w.dilation_x = 1;
  }
  w.out_height = linear ? 1 : pick(1, 5), w.out_width = pick(0, 5) ? pick(1, 19) : pick(20, 90);
  w.pad_top = linear ? 0 : pick(0, 2), w.pad_left = linear ? 0 : pick(0, 2);
  w.in_height = std::max<int64_t>(
      1, (w.out_height - 1) * w.stride_y + (w.height - 1) * w.dilation_y + 1 - w.pad_top - pick(0, 1));
  w.in_width = std::max<int64_t>(
      1, (w.out_width - 1) * w.stride_x + (w.width - 1) * w.dilation_x + 1 - w.pad_left - pick(0, 1));
  if (kind == 0) {  // depthwise
    w.groups = w.in_channels = w.out_channels = pick(2, 140);
  } else if (kind == 1) {
    w.groups = pick(2, 3);
    w.in_channels = w.groups * pick(1, 20), w.out_channels = w.groups * pick(1, 20);
  } else {
    w.in_channels = pick(1, 70), w.out_channels = pick(1, 150);
  }
  c.in.wide = pick(0, 1) != 0;
  c.in.flip = pick(0, 3) == 0;
  const int32_t top = c.in.wide ? 65535 : 255;
  c.in.zero_point = static_cast<int32_t>(pick(0, top));
  c.out.rounding = c.in.wide ? (pick(0, 5) ? Rounding::matrix16 : Rounding::none)
                             : std::array{Rounding::matrix8, Rounding::matrix8, Rounding::matrix8,
                                          Rounding::vector, Rounding::none}[static_cast<size_t>(pick(0, 4))];
  c.out.wide = pick(0, 3) == 0 ? !c.in.wide : c.in.wide;
  c.out.max = c.out.wide ? 65535 : 255;
  c.out.zero_point = static_cast<int32_t>(pick(0, c.out.max));
  if (pick(0, 2) == 0) c.out.min = c.out.zero_point;
  if (w.depthwise() && pick(0, 3) == 0) c.out.rounding = Rounding::vector;
  const int64_t extreme = pick(0, 5);  // all at the ends of their ranges, where sums are largest
  c.x.resize(static_cast<size_t>(w.batch * w.in_height * w.in_width * w.in_channels));
  for (int32_t& v : c.x)
    v = static_cast<int32_t>(extreme == 0 ? top : extreme == 1 ? pick(0, 1) * top : pick(0, top));
  const int64_t low = pick(0, 3) == 0 ? -128 : -127;
  c.weights.resize(static_cast<size_t>(w.taps() * w.inputs() * w.out_channels));
  for (int32_t& v : c.weights)
    v = static_cast<int32_t>(extreme == 0 ? low : extreme == 1 ? (pick(0, 1) ? low : 127) : pick(low, 127));
  const double size = 40.0 * top / 2 * std::sqrt(static_cast<double>(w.taps() * w.inputs()));
  for (int64_t o = 0; o < w.out_channels; ++o) {
    c.bias.push_back(pick(0, 1) ? pick(-1000, 1000) * static_cast<int64_t>(size / 500) : 0);
    // Some outputs are far too large, some all alike.
    c.factor.push_back(c.out.max / 4.0 / size *
                       std::pow(2.0, static_cast<double>(pick(-3, 3)) * (pick(0, 9) ? 1 : 5)) *
                       static_cast<double>(pick(500, 1000)) / 1000);
  }
  return c;
}

TEST(quant, every_kernel_gives_the_plain_ones_bits) {
  std::mt19937 rng(7);
  Pool one(1), two(2);
  const char* asked = std::getenv("SIXFOLD_QUANT_CASES");
  const int count = asked ? std::atoi(asked) : 200;
  for (int i = 0; i < count; ++i) {
    const Case c = random_case(rng);
    const std::vector<int32_t> want = expected(c);
    for (const QuantKernels* kernels : all_quant_kernels()) {
      const std::vector<int32_t> got = run(c, *kernels, i % 2 ? one : two);
      ASSERT_EQ(got.size(), want.size());
      const auto wrong = std::mismatch(got.begin(), got.end(), want.begin());
      ASSERT_EQ(wrong.first, got.end())
          << "case " << i << " " << kernels->name << " at " << wrong.first - got.begin() << ": "
          << *wrong.first << ", not " << *wrong.second << "; inputs " << c.w.inputs() << " outputs "
          << c.w.outputs() << " groups " << c.w.groups << " taps " << c.w.taps() << " wide " << c.in.wide
          << " rounding " << static_cast<int>(c.out.rounding);
    }
  }
}

// Measured: a sweep of sums through 1 x 1 convolutions, factor 0.004 = 0.512 * 2^-7, zero point 120.
TEST(quant, sums_are_cut_before_they_are_scaled) {
  QuantChannels c = {};
  ASSERT_TRUE(set_factor(c, 0, Rounding::matrix8, 0.004));
  const QuantOutput out{.zero_point = 120};
  EXPECT_EQ(requantize(-15873, c, 0, out), 56);
  EXPECT_EQ(requantize(-15872, c, 0, out), 57);
  EXPECT_EQ(requantize(-15633, c, 0, out), 57);
  EXPECT_EQ(requantize(-15632, c, 0, out), 58);
  EXPECT_EQ(requantize(-15377, c, 0, out), 58);
  EXPECT_EQ(requantize(-15376, c, 0, out), 59);
  EXPECT_FALSE(set_factor(c, 0, Rounding::matrix8, 0));
  EXPECT_FALSE(set_factor(c, 0, Rounding::matrix8, std::nan("")));
}

// Measured: columns of MatMul's second operand that reach beyond bytes, one number of each row at a time.
TEST(quant, columns_beyond_bytes_are_scaled_by_a_reciprocal_of_16_bits) {
  const auto expect = [](int64_t least, int64_t most, int64_t growth,
                         std::initializer_list<std::array<int, 2>> of) {
    const ByteScale scale = ByteScale::of(least, most);
    EXPECT_EQ(scale.growth, growth) << least << " " << most;
    for (const auto& [number, byte] : of) EXPECT_EQ(scale.byte(number), byte) << least << " " << most;
  };
  expect(-128, 127, 2048, {{-128, -128}, {127, 127}, {-1, -1}});
  expect(-120, 132, 2129, {{132, 127}, {92, 89}, {-92, -89}, {66, 63}});
  expect(-5, 172, 2774, {{172, 127}, {128, 95}, {86, 63}});
  expect(-1, 254, 4096, {{254, 127}, {1, 1}, {-1, 0}, {253, 127}});
  expect(-131, 93, 2096, {{-131, -128}, {93, 91}});
}

}  // namespace
}  // namespace sixfold::cpu
