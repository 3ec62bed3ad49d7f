// The fast f32 convolutions against the definition: our own, which builds without oneDNN use, and oneDNN's.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "sixfold/ops/conv/conv.h"

namespace sixfold::cpu {
namespace {

std::mt19937 random_bits(7);
int64_t pick(int64_t least, int64_t most) {
  return std::uniform_int_distribution<int64_t>(least, most)(random_bits);
}
std::vector<float> numbers(int64_t n) {
  std::vector<float> out(static_cast<size_t>(n));
  for (float& x : out) x = std::uniform_real_distribution<float>(-1, 1)(random_bits);
  return out;
}

using Make = KernelResult (*)(const ConvCall&);

ConvShape random_shape(size_t axes) {
  ConvShape s;
  s.batch = pick(1, 2);
  const int64_t kind = pick(0, 2);  // dense, depthwise, groups
  s.groups = kind == 0 ? 1 : pick(2, 37);
  if (kind == 2) s.groups = pick(2, 3);
  s.in_channels = s.groups * (kind == 1 ? 1 : pick(1, 9));
  s.out_channels = s.groups * (kind == 1 ? 1 : pick(1, 40));
  s.transposed = pick(0, 3) == 0;
  for (size_t d = 0; d < axes; ++d) {
    s.kernel.push_back(pick(1, 3));
    s.stride.push_back(pick(1, 2));
    s.dilation.push_back(pick(1, 2));
    const int64_t reach = s.dilation[d] * (s.kernel[d] - 1);
    s.padding.push_back(pick(0, reach));
    s.padding_end.push_back(s.padding[d]);
    if (s.transposed) {
      s.in.push_back(pick(2, 5));
      s.out.push_back((s.in[d] - 1) * s.stride[d] + reach + 1 - 2 * s.padding[d]);
    } else {
      s.in.push_back(reach + pick(1, 6));
      s.out.push_back((s.in[d] + 2 * s.padding[d] - reach - 1) / s.stride[d] + 1);
    }
    if (s.out[d] < 1) return random_shape(axes);
  }
  return s;
}

TensorDesc image(int64_t batch, int64_t channels, const Shape& spatial, bool last) {
  TensorDesc t{DType::f32, {batch, channels}, {}, nullptr};
  t.shape.insert(t.shape.end(), spatial.begin(), spatial.end());
  t.strides = last ? channels_last_strides(t.shape) : contiguous_strides(t.shape);
  return t;
}

// So much work that it is cut into blocks of rows, channels and slices.
ConvShape large_shape() {
  ConvShape s;
  s.batch = pick(1, 2);
  s.in_channels = 32 * pick(1, 12);
  s.out_channels = 32 * pick(1, 8);
  const int64_t kernel = pick(0, 1) ? 1 : 3, stride = pick(1, 2);
  s.kernel = {kernel, kernel};
  s.stride = {stride, stride};
  s.dilation = {1, 1};
  s.padding = s.padding_end = {kernel / 2, kernel / 2};
  s.in = {pick(7, 20), pick(7, 20)};
  for (const int64_t n : s.in) s.out.push_back((n - 1) / stride + 1);
  return s;
}

// Returns whether there is a kernel for it.
bool compare(const ConvShape& s, Make make, int round, double tolerance) {
  const bool last_in = pick(0, 1), last_out = pick(0, 1);
  const bool bias = pick(0, 1), residual = pick(0, 1), norm = pick(0, 1), constant = pick(0, 1);
  std::vector<TensorDesc> in{image(s.batch, s.in_channels, s.in, last_in)};
  Shape weight_shape{s.transposed ? s.in_channels : s.out_channels,
                     (s.transposed ? s.out_channels : s.in_channels) / s.groups};
  weight_shape.insert(weight_shape.end(), s.kernel.begin(), s.kernel.end());
  in.push_back({DType::f32, weight_shape, contiguous_strides(weight_shape), nullptr});
  const TensorDesc line{DType::f32, {s.out_channels}, {1}, nullptr}, none;
  const TensorDesc out = image(s.batch, s.out_channels, s.out, last_out);
  in.push_back(bias ? line : none);
  in.push_back(residual ? out : none);
  in.push_back(norm ? line : none);
  in.push_back(norm ? line : none);
  std::vector<std::vector<float>> data;
  std::vector<const void*> inputs;
  for (const TensorDesc& t : in) data.push_back(numbers(t.present() ? t.count() : 0));
  for (const auto& d : data) inputs.push_back(d.data());

  ConvCall call;
  call.shape = s;
  call.bias = bias;
  call.residual = residual;
  call.norm = norm;
  call.row_major_in = !is_channels_last(in[0]);
  call.row_major_out = !is_channels_last(out);
  call.row_major_residual = residual && !is_channels_last(out);
  call.weights = constant ? data[1].data() : nullptr;
  SharedParts shared;
  call.shared = &shared;
  auto fast = make(call);
  if (!fast.ok() && fast.error().code() == Code::Unsupported) return false;
  const std::vector<float> other_weights = numbers(in[1].count());
  if (constant) call.weights = other_weights.data();
  const auto other = make(call);  // another of that shape
  EXPECT_TRUE(fast.ok()) << fast.error().message();
  const Attrs attrs{{"activation", std::string("none")}};
  auto plain = make_plain_conv({Op::convolution, in, std::span(&out, 1), attrs}, s);
  EXPECT_TRUE(plain.ok()) << plain.error().message();
  EXPECT_EQ((*fast)->packed_weights(), constant);
  if (constant) inputs[1] = nullptr;  // not read: they were packed

  Pool pool(1 + static_cast<size_t>(round % 2));
  std::vector<float> results[2];
  for (int k = 0; k < 2; ++k) {
    Kernel& kernel = k == 0 ? **plain : **fast;
    results[k] = std::vector<float>(static_cast<size_t>(out.count()), -99.0f);
    std::vector<std::byte> scratch(kernel.scratch_bytes() + 64, std::byte{0xff});
    auto* aligned =
        reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64);
    std::vector<const void*> given = inputs;
    if (k == 0) given[1] = data[1].data();
    void* to = results[k].data();
    EXPECT_TRUE(kernel.run({given, std::span(&to, 1), aligned, pool}).ok());
  }
  for (size_t i = 0; i < results[0].size(); ++i)
    EXPECT_NEAR(results[0][i], results[1][i], tolerance)
        << cat(i, " of ", s.in, " -> ", s.out, ", kernel ", s.kernel, ", groups ", s.groups,
               s.transposed ? " transposed" : "");
  return true;
}

TEST(DirectConv, is_the_definition) {
  for (int round = 0; round < 400; ++round)
    ASSERT_TRUE(compare(random_shape(static_cast<size_t>(1 + round % 3)), make_direct_conv, round, 2e-5));
}

#ifdef SIXFOLD_ONEDNN
KernelResult make_bf16(const ConvCall& call) {
  ConvCall rough = call;
  rough.bf16 = true;
  return make_blocked_conv(rough);
}

TEST(BlockedConv, with_rough_factors_is_near_the_definition) {
  for (int round = 0; round < 40; ++round) {
    const ConvShape s = large_shape();
    // Products of numbers below 1, each off by 2^-8 at the most, and signs that are random.
    const double terms = static_cast<double>(s.in_channels * numel(s.kernel));
    ASSERT_TRUE(compare(s, make_bf16, round, has_bf16_products() ? 6 * std::sqrt(terms) / 512 : 1e-3));
  }
  for (int round = 0; round < 100; ++round)
    compare(random_shape(static_cast<size_t>(1 + round % 3)), make_bf16, round, 0.2);
}

TEST(BlockedConv, is_the_definition) {
  int made = 0;
  for (int round = 0; round < 200; ++round)
    made += compare(random_shape(static_cast<size_t>(1 + round % 3)), make_blocked_conv, round, 2e-5);
  EXPECT_GT(made, 50);
  for (int round = 0; round < 40; ++round)
    ASSERT_TRUE(compare(large_shape(), make_blocked_conv, round, 2e-4));
}
#endif

}  // namespace
}  // namespace sixfold::cpu
