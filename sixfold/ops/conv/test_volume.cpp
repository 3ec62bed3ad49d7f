// Convolutions of volumes on the emulator, against their definition written as loops.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "sixfold/emulator/emulator.h"
#include "sixfold/qnn/context.h"

namespace sixfold::emulator {
namespace {

using qnn::DataType;
using qnn::TensorKind;
using qnn::words;
using Axes = std::array<int64_t, 3>;

struct Case {
  Axes in, taps, stride, dilation, begin, end;
  int64_t batch, in_channels, out_channels, groups;
  bool transposed;

  int64_t inputs() const { return in_channels / groups; }
  int64_t outputs() const { return out_channels / groups; }
  int64_t extent(size_t a) const {
    return transposed ? (in[a] - 1) * stride[a] + taps[a] - begin[a] - end[a]
                      : (in[a] + begin[a] + end[a] - dilation[a] * (taps[a] - 1) - 1) / stride[a] + 1;
  }
  std::vector<uint32_t> dims_in() const { return dims(in, batch, in_channels); }
  std::vector<uint32_t> dims_out() const {
    return dims({extent(0), extent(1), extent(2)}, batch, out_channels);
  }
  std::vector<uint32_t> dims_weights() const {
    const std::vector<uint32_t> d = dims(taps, 1, transposed ? outputs() : out_channels);
    return {d[1], d[2], d[3], static_cast<uint32_t>(transposed ? in_channels : inputs()), d[4]};
  }

  static std::vector<uint32_t> dims(const Axes& axes, int64_t batch, int64_t channels) {
    return {static_cast<uint32_t>(batch), static_cast<uint32_t>(axes[0]), static_cast<uint32_t>(axes[1]),
            static_cast<uint32_t>(axes[2]), static_cast<uint32_t>(channels)};
  }
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  const auto axes = [&](const char* name, const Axes& a) {
    out << name << ' ' << a[0] << ' ' << a[1] << ' ' << a[2] << ", ";
  };
  axes("in", c.in), axes("taps", c.taps), axes("stride", c.stride), axes("dilation", c.dilation);
  axes("padding", c.begin), axes("behind", c.end);
  return out << c.batch << " of " << c.in_channels << " to " << c.out_channels << " channels, " << c.groups
             << " groups" << (c.transposed ? ", transposed" : "");
}

size_t count(const std::vector<uint32_t>& dims) {
  size_t n = 1;
  for (const uint32_t d : dims) n *= d;
  return n;
}

// The sum of each result: term(element of x, element of weights) for each tap within x.
template <typename Term>
std::vector<double> sums(const Case& c, Term term) {
  std::vector<double> all;
  Axes o{}, t{};
  for (int64_t n = 0; n < c.batch; ++n)
    for (o[0] = 0; o[0] < c.extent(0); ++o[0])
      for (o[1] = 0; o[1] < c.extent(1); ++o[1])
        for (o[2] = 0; o[2] < c.extent(2); ++o[2])
          for (int64_t k = 0; k < c.out_channels; ++k) {
            double sum = 0;
            for (t[0] = 0; t[0] < c.taps[0]; ++t[0])
              for (t[1] = 0; t[1] < c.taps[1]; ++t[1])
                for (t[2] = 0; t[2] < c.taps[2]; ++t[2]) {
                  int64_t pixel = n, tap = 0;
                  bool inside = true;
                  for (size_t a = 0; a < 3; ++a) {
                    int64_t at = 0;
                    if (c.transposed) {
                      at = o[a] + c.begin[a] - t[a];
                      inside &= at % c.stride[a] == 0;
                      at /= c.stride[a];
                    } else {
                      at = o[a] * c.stride[a] + t[a] * c.dilation[a] - c.begin[a];
                    }
                    inside &= at >= 0 && at < c.in[a];
                    pixel = pixel * c.in[a] + at;
                    tap = tap * c.taps[a] + t[a];
                  }
                  if (!inside) continue;
                  const int64_t group = k / c.outputs();
                  for (int64_t i = 0; i < c.inputs(); ++i) {
                    const int64_t channel = group * c.inputs() + i;
                    const int64_t weight =
                        c.transposed ? (tap * c.in_channels + channel) * c.outputs() + k % c.outputs()
                                     : (tap * c.inputs() + i) * c.out_channels + k;
                    sum += term(static_cast<size_t>(pixel * c.in_channels + channel),
                                static_cast<size_t>(weight));
                  }
                }
            all.push_back(sum);
          }
  return all;
}

std::vector<Case> random_cases() {
  std::mt19937 random(7);
  const auto from = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  std::vector<Case> cases;
  while (cases.size() < 60) {
    Case c{};
    c.transposed = cases.size() % 2 == 1;
    c.batch = from(1, 2), c.groups = from(1, 2);
    c.in_channels = c.groups * from(1, 6), c.out_channels = c.groups * from(1, 20);
    bool right = true;
    for (size_t a = 0; a < 3; ++a) {
      c.in[a] = from(1, 6), c.taps[a] = from(1, 3), c.stride[a] = from(1, 3);
      c.dilation[a] = c.transposed ? 1 : from(1, 2);
      c.begin[a] = from(0, c.taps[a] - 1), c.end[a] = from(0, c.taps[a] - 1);
      right &= (c.transposed || c.in[a] + c.begin[a] + c.end[a] > c.dilation[a] * (c.taps[a] - 1)) &&
               c.extent(a) > 0;
    }
    if (right) cases.push_back(c);
  }
  return cases;
}

template <typename T>
qnn::TensorSpec constant(DataType dtype, std::vector<uint32_t> dims, const std::vector<T>& values,
                         qnn::Quantization quantization = {}) {
  qnn::TensorSpec spec{
      .name = dims.size() == 1 ? "bias" : "weights", .kind = TensorKind::constant, .dtype = dtype};
  std::byte* bytes = nullptr;
  spec.data.source = Tensor::allocate(qnn::storage_of(dtype), Shape(dims.begin(), dims.end()), &bytes);
  std::memcpy(bytes, values.data(), values.size() * sizeof(T));
  spec.dims = std::move(dims);
  spec.quantization = std::move(quantization);
  return spec;
}

template <typename T, typename W, typename B>
std::vector<T> run(const Case& c, DataType dtype, const std::vector<T>& x, qnn::ScaleOffset x_grid,
                   qnn::ScaleOffset y_grid, const std::vector<W>& weights, DataType weight_type,
                   const std::vector<B>& bias, DataType bias_type, float weight_scale) {
  const bool fixed = qnn::is_fixed(dtype);
  const auto grid = [&](qnn::ScaleOffset g) { return fixed ? qnn::Quantization(g) : qnn::Quantization(); };
  qnn::GraphSpec g;
  const auto tx = g.add({.name = "x",
                         .kind = TensorKind::app_write,
                         .dtype = dtype,
                         .dims = c.dims_in(),
                         .quantization = grid(x_grid)});
  const auto tw = g.add(constant(weight_type, c.dims_weights(), weights, grid({weight_scale, 0})));
  const auto tb = g.add(constant(bias_type, {static_cast<uint32_t>(c.out_channels)}, bias,
                                 grid({weight_scale * x_grid.scale, 0})));
  const auto ty = g.add({.name = "y",
                         .kind = TensorKind::app_read,
                         .dtype = dtype,
                         .dims = c.dims_out(),
                         .quantization = grid(y_grid)});
  const auto three = [](const Axes& a) {
    return std::vector<uint32_t>{static_cast<uint32_t>(a[0]), static_cast<uint32_t>(a[1]),
                                 static_cast<uint32_t>(a[2])};
  };
  std::vector<uint32_t> pads;
  for (size_t a = 0; a < 3; ++a)
    pads.push_back(static_cast<uint32_t>(c.begin[a])), pads.push_back(static_cast<uint32_t>(c.end[a]));
  std::vector<qnn::Param> params = {words("stride", {3}, three(c.stride)),
                                    words("pad_amount", {3, 2}, pads),
                                    {"group", static_cast<uint32_t>(c.groups)}};
  if (!c.transposed) params.push_back(words("dilation", {3}, three(c.dilation)));
  g.ops.push_back({"conv", c.transposed ? "TransposeConv3d" : "Conv3d", {tx, tw, tb}, {ty}, params});

  std::vector<T> y(count(c.dims_out()));
  const auto backend = qnn::Backend::open(library(), 57);
  EXPECT_TRUE(backend.ok());
  auto built = qnn::Context::build(*backend, {&g, 1});
  EXPECT_TRUE(built.ok()) << built.error().message();
  if (!built.ok()) return y;
  const std::span<const std::byte> in[] = {std::as_bytes(std::span(x))};
  const std::span<std::byte> out[] = {std::as_writable_bytes(std::span(y))};
  const Status s = built->graphs().front().execute(in, out);
  EXPECT_TRUE(s.ok()) << s.error().message();
  return y;
}

TEST(EmulatedVolumes, of_bytes_are_scaled_as_the_matrix_unit_does) {
  std::mt19937 random(11);
  // Steps of the output for one of the sum: 2357 / 4096 / 2^7, so a sum is cut to 2^4.
  const float weight_scale = 0x1p-9f, x_scale = 0x1p-5f, y_scale = 0x1p-7f;
  constexpr int kMultiplier = 2357;
  const float ratio = kMultiplier / 4096.0f;
  for (const Case& c : random_cases()) {
    const int zero_x = static_cast<int>(random() % 256), zero_y = static_cast<int>(random() % 256);
    std::vector<uint8_t> x(count(c.dims_in()));
    std::vector<int8_t> weights(count(c.dims_weights()));
    std::vector<int32_t> bias(static_cast<size_t>(c.out_channels));
    for (uint8_t& v : x) v = static_cast<uint8_t>(random());
    for (int8_t& v : weights) v = static_cast<int8_t>(static_cast<int>(random() % 255) - 127);
    for (int32_t& v : bias) v = random() % 2 == 0 ? 1234 : -1234;  // alike, so that none is rounded
    const std::vector<uint8_t> y =
        run(c, DataType::ufixed8, x, {x_scale * ratio, -zero_x}, {y_scale, -zero_y}, weights,
            DataType::sfixed8, bias, DataType::sfixed32, weight_scale);
    const std::vector<double> all =
        sums(c, [&](size_t i, size_t w) { return (x[i] - zero_x) * static_cast<double>(weights[w]); });
    for (size_t i = 0; i < y.size(); ++i) {
      const auto sum = static_cast<int64_t>(all[i]) + bias[i % bias.size()];
      const int64_t q = ((2 * (sum >> 4) + 1) * kMultiplier + 32768) >> 16;
      ASSERT_EQ(y[i], std::clamp<int64_t>(q + zero_y, 0, 255)) << c << ", element " << i;
    }
  }
}

TEST(EmulatedVolumes, of_floats_have_exact_sums) {
  std::mt19937 random(13);
  const auto few = [&] { return static_cast<float>(static_cast<int>(random() % 5) - 2); };
  for (const Case& c : random_cases()) {
    std::vector<float> x(count(c.dims_in())), weights(count(c.dims_weights())),
        bias(static_cast<size_t>(c.out_channels));
    for (std::vector<float>* values : {&x, &weights, &bias})
      for (float& v : *values) v = few();
    const std::vector<float> y =
        run(c, DataType::f32, x, {}, {}, weights, DataType::f32, bias, DataType::f32, 1);
    const std::vector<double> all = sums(
        c, [&](size_t i, size_t w) { return static_cast<double>(x[i]) * static_cast<double>(weights[w]); });
    for (size_t i = 0; i < y.size(); ++i) {
      const double want = all[i] + static_cast<double>(bias[i % bias.size()]);
      ASSERT_NEAR(static_cast<double>(y[i]), want, std::abs(want) * 0x1p-20) << c << ", element " << i;
    }
  }
}

}  // namespace
}  // namespace sixfold::emulator
