#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "sixfold/ops/op_test.h"

namespace sixfold {
namespace {

Attrs max_attrs(Shape kernel, Shape stride, Shape padding, Shape dilation, bool ceil_mode = false) {
  return {{"kernel", to_dims(kernel)},
          {"stride", to_dims(stride)},
          {"padding", to_dims(padding)},
          {"dilation", to_dims(dilation)},
          {"ceil_mode", ceil_mode}};
}
Attrs avg_attrs(Shape kernel, Shape stride, Shape padding, bool ceil_mode, bool count_include_pad,
                int64_t divisor = 0) {
  return {{"kernel", to_dims(kernel)},
          {"stride", to_dims(stride)},
          {"padding", to_dims(padding)},
          {"ceil_mode", ceil_mode},
          {"count_include_pad", count_include_pad},
          {"divisor", Dim(divisor)}};
}

// The value at (n, c, h, w) of a 4-d tensor, or 0-or-lowest outside it.
double at(const Tensor& x, int64_t n, int64_t c, int64_t h, int64_t w, double outside) {
  if (h < 0 || w < 0 || h >= x.shape[2] || w >= x.shape[3]) return outside;
  return element_real(x, ((n * x.shape[1] + c) * x.shape[2] + h) * x.shape[3] + w);
}

void expect_max_pool(const Tensor& x, const Attrs& attrs, RunOptions options) {
  const auto out = run_op(Op::max_pool, {x}, attrs, options);
  ASSERT_TRUE(out.ok()) << out.error().message();
  const Tensor& y = (*out)[0];
  const Shape k = attrs.ints("kernel"), s = attrs.ints("stride"), p = attrs.ints("padding"),
              d = attrs.ints("dilation");
  int64_t i = 0;
  for (int64_t n = 0; n < y.shape[0]; ++n)
    for (int64_t c = 0; c < y.shape[1]; ++c)
      for (int64_t h = 0; h < y.shape[2]; ++h)
        for (int64_t w = 0; w < y.shape[3]; ++w, ++i) {
          double best = -std::numeric_limits<double>::infinity();
          for (int64_t a = 0; a < k[0]; ++a)
            for (int64_t b = 0; b < k[1]; ++b)
              best =
                  std::max(best, at(x, n, c, h * s[0] - p[0] + a * d[0], w * s[1] - p[1] + b * d[1], best));
          ASSERT_EQ(element_real(y, i), best) << "at " << n << ' ' << c << ' ' << h << ' ' << w;
          if (!options.skip_output_1) {
            const int64_t index = element_integer((*out)[1], i);
            ASSERT_EQ(at(x, n, c, index / x.shape[3], index % x.shape[3], 0), best);
          }
        }
}

TEST(MaxPool, equals_its_definition_in_both_layouts_with_and_without_indices) {
  for (const bool channels_last : {false, true})
    for (const bool skip : {false, true})
      for (const int64_t channels : {3, 70})
        for (const Attrs& attrs :
             {max_attrs({3, 3}, {2, 2}, {1, 1}, {1, 1}), max_attrs({2, 5}, {1, 1}, {1, 2}, {1, 1}),
              max_attrs({3, 2}, {3, 3}, {1, 1}, {2, 3}, true), max_attrs({9, 9}, {9, 9}, {0, 0}, {1, 1})})
          expect_max_pool(random_tensor({2, channels, 19, 41}, 7), attrs,
                          {.channels_last = channels_last, .skip_output_1 = skip});
}

TEST(MaxPool, a_nan_wins) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const bool skip : {false, true}) {
    const auto out = run_op(Op::max_pool, {tensor_of<float>({1, 1, 4}, {1, nan, 5, 6})},
                            max_attrs({2}, {2}, {0}, {1}), {.skip_output_1 = skip});
    ASSERT_TRUE(out.ok());
    EXPECT_TRUE(std::isnan(element_real((*out)[0], 0)));
    EXPECT_EQ(element_real((*out)[0], 1), 6);
  }
}

TEST(MaxPool, a_window_larger_than_its_input_is_refused) {
  const auto out =
      run_op(Op::max_pool, {random_tensor({1, 1, 4, 4}, 1)}, max_attrs({9, 9}, {1, 1}, {0, 0}, {1, 1}));
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().code(), Code::InvalidModel);
}

TEST(AvgPool, divides_as_torch_does_at_the_borders) {
  // Values from torch.nn.functional.avg_pool1d(arange(1, 6), 3, 2, 1, ceil_mode, count_include_pad)
  const Tensor x = tensor_of<float>({1, 1, 5}, {1, 2, 3, 4, 5});
  const auto plain = run_op(Op::avg_pool, {x}, avg_attrs({3}, {2}, {1}, false, true));
  EXPECT_EQ(values_of<float>((*plain)[0]), (std::vector<float>{1, 3, 3}));
  const auto inside = run_op(Op::avg_pool, {x}, avg_attrs({3}, {2}, {1}, false, false));
  EXPECT_EQ(values_of<float>((*inside)[0]), (std::vector<float>{1.5, 3, 4.5}));
  const auto divisor = run_op(Op::avg_pool, {x}, avg_attrs({3}, {2}, {1}, false, true, 2));
  EXPECT_EQ(values_of<float>((*divisor)[0]), (std::vector<float>{1.5, 4.5, 4.5}));
  // The last window of ceil_mode reaches beyond the padding; only what lies within counts.
  const auto ceil =
      run_op(Op::avg_pool, {tensor_of<float>({1, 1, 4}, {1, 2, 3, 4})}, avg_attrs({3}, {2}, {0}, true, true));
  EXPECT_EQ(values_of<float>((*ceil)[0]), (std::vector<float>{2, 3.5}));
}

TEST(AvgPool, every_path_gives_the_same_numbers) {
  const Attrs attrs = avg_attrs({3, 3}, {2, 1}, {1, 1}, true, true);
  const Tensor x = random_tensor({2, 37, 15, 23}, 3);
  const auto wide = run_op(Op::avg_pool, {to_double(x)}, attrs);
  const auto rows = run_op(Op::avg_pool, {x}, attrs);
  const auto last = run_op(Op::avg_pool, {x}, attrs, {.channels_last = true});
  expect_near((*rows)[0], (*wide)[0], 1e-6);
  expect_near((*last)[0], (*wide)[0], 1e-6);
}

TEST(AdaptiveAvgPool, global_and_uneven_windows_average_what_they_cover) {
  const Tensor x = random_tensor({1, 130, 7, 11}, 5);
  for (const Shape& size : {Shape{1, 1}, Shape{3, 4}, Shape{9, 13}})
    for (const bool channels_last : {false, true}) {
      const Attrs attrs{{"size", to_dims(size)}};
      const auto expected = run_op(Op::adaptive_avg_pool, {to_double(x)}, attrs);
      const auto out = run_op(Op::adaptive_avg_pool, {x}, attrs, {.channels_last = channels_last});
      ASSERT_TRUE(out.ok()) << out.error().message();
      expect_near((*out)[0], (*expected)[0], 1e-6);
    }
}

TEST(AdaptiveAvgPool, a_large_image_loses_no_digits) {
  const Tensor x = random_tensor({1, 20, 200, 200}, 5);
  for (const bool channels_last : {false, true}) {
    const Attrs attrs{{"size", Dims{1, 1}}};
    const auto expected = run_op(Op::adaptive_avg_pool, {to_double(x)}, attrs);
    const auto out = run_op(Op::adaptive_avg_pool, {x}, attrs, {.channels_last = channels_last});
    ASSERT_TRUE(out.ok()) << out.error().message();
    expect_near((*out)[0], (*expected)[0], 1e-9);
  }
}

TEST(AdaptiveMaxPool, indices_point_into_the_plane) {
  const auto out = run_op(Op::adaptive_max_pool, {tensor_of<float>({1, 1, 2, 3}, {1, 9, 2, 3, 4, 5})},
                          {{"size", Dims{1, 2}}});
  EXPECT_EQ(values_of<float>((*out)[0]), (std::vector<float>{9, 9}));
  EXPECT_EQ(values_of<int64_t>((*out)[1]), (std::vector<int64_t>{1, 1}));
}

}  // namespace
}  // namespace sixfold
