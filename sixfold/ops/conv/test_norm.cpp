// A norm on a convolution: the fast f32 kernel against the plain f64 one, with and without what else it may
// carry.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "sixfold/engine/engine.h"

namespace sixfold {
namespace {

Tensor numbers(Shape shape, int64_t step, DType dtype) {
  std::byte* bytes = nullptr;
  Tensor t = Tensor::allocate(dtype, std::move(shape), &bytes);
  for (int64_t i = 0; i < t.count(); ++i) {
    const double x = static_cast<double>(i * step % 41 - 20) / 16.0;
    if (dtype == DType::f64)
      reinterpret_cast<double*>(bytes)[i] = x;
    else
      reinterpret_cast<float*>(bytes)[i] = static_cast<float>(x);
  }
  return t;
}

struct Case {
  int64_t groups, kernel;
  bool bias, residual;
  const char* activation;
};

std::vector<double> run(const Case& c, DType dtype) {
  const int64_t padding = c.kernel / 2;
  std::vector<Tensor> in{
      numbers({2, 48, 9, 11}, 7, dtype),
      numbers({64 / (c.groups > 1 ? 4 : 1) * (c.groups > 1 ? 3 : 1), 48 / c.groups, c.kernel, c.kernel}, 5,
              dtype)};
  const int64_t out_channels = in[1].shape[0];
  in.push_back(c.bias ? numbers({out_channels}, 3, dtype) : Tensor{});
  in.push_back(c.residual ? numbers({2, out_channels, 9, 11}, 11, dtype) : Tensor{});
  in.push_back(numbers({out_channels}, 9, dtype));
  in.push_back(numbers({out_channels}, 2, dtype));
  const Dims one{1, 1}, zero{0, 0}, pad{padding, padding};
  auto out = evaluate(Op::convolution, in,
                      {{"stride", one},
                       {"padding", pad},
                       {"padding_end", pad},
                       {"dilation", one},
                       {"groups", Dim(c.groups)},
                       {"transposed", false},
                       {"output_padding", zero},
                       {"activation", std::string(c.activation)}});
  EXPECT_TRUE(out.ok()) << out.error().message();
  std::vector<double> values;
  for (int64_t i = 0; i < (*out)[0].count(); ++i) values.push_back(element_real((*out)[0], i));
  return values;
}

TEST(ConvolutionNorm, the_fast_kernel_agrees_with_the_definition) {
  for (const Case& c :
       {Case{1, 3, false, false, "none"}, Case{1, 1, true, true, "relu"}, Case{1, 3, true, true, "silu"},
        Case{48, 3, false, true, "relu"}, Case{48, 3, true, false, "none"}}) {
    const auto fast = run(c, DType::f32), plain = run(c, DType::f64);
    ASSERT_EQ(fast.size(), plain.size());
    for (size_t i = 0; i < fast.size(); ++i)
      ASSERT_NEAR(fast[i], plain[i], 2e-4)
          << "groups " << c.groups << " kernel " << c.kernel << " element " << i;
  }
}

TEST(ConvolutionActivation, a_nan_stays_a_nan) {
  std::vector<Tensor> in{numbers({1, 16, 4, 4}, 7, DType::f32), numbers({16, 16, 1, 1}, 5, DType::f32)};
  reinterpret_cast<float*>(const_cast<std::byte*>(in[0].data))[0] = std::numeric_limits<float>::quiet_NaN();
  const Dims one{1, 1}, zero{0, 0};
  auto out = evaluate(Op::convolution, in,
                      {{"stride", one},
                       {"padding", zero},
                       {"padding_end", zero},
                       {"dilation", one},
                       {"groups", Dim(1)},
                       {"transposed", false},
                       {"output_padding", zero},
                       {"activation", std::string("relu")}});
  ASSERT_TRUE(out.ok()) << out.error().message();
  for (int64_t c = 0; c < 16; ++c) EXPECT_TRUE(std::isnan(element_real((*out)[0], c * 16))) << c;
  EXPECT_FALSE(std::isnan(element_real((*out)[0], 1)));
}

}  // namespace
}  // namespace sixfold
