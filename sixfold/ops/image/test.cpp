#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "sixfold/ops/op_test.h"

namespace sixfold {
namespace {

Attrs resize(Dims size, const char* mode, bool align_corners = false, bool antialias = false,
             double scale = 0.0) {
  return {{"scales", std::vector<double>(size.size(), scale)},
          {"size", std::move(size)},
          {"mode", std::string(mode)},
          {"align_corners", align_corners},
          {"antialias", antialias}};
}

// Expected values in this file were printed by torch 2.13.
void expect_upsample(const Tensor& x, const Attrs& attrs, const std::vector<float>& expected) {
  const auto out = run_op(Op::upsample, {x}, attrs);
  ASSERT_TRUE(out.ok()) << out.error().message();
  expect_near((*out)[0], tensor_of<float>((*out)[0].shape, expected), 1e-5);
}

TEST(Upsample, linear_and_cubic_equal_torch) {
  const Tensor x = tensor_of<float>({1, 1, 2, 3}, {1, 2, 4, 3, 0, -1});
  expect_upsample(x, resize({3, 5}, "linear"), {1, 1.4, 2, 3.2, 4, 2, 1.6, 1, 1.3, 1.5, 3, 1.8, 0, -0.6, -1});
  expect_upsample(x, resize({3, 5}, "linear", true),
                  {1, 1.5, 2, 3, 4, 2, 1.5, 1, 1.25, 1.5, 3, 1.5, 0, -0.5, -1});
  expect_upsample(x, resize({3, 4}, "cubic"),
                  {0.729689, 1.439801, 3.136167, 4.596275, 2.071777, 1.30542, 1.070312, 1.535889, 3.413866,
                   1.171039, -0.99554, -1.524496});
}

TEST(Upsample, antialiasing_equals_torch) {
  std::vector<float> squares;
  for (int i = 1; i <= 12; ++i) squares.push_back(static_cast<float>(i * i) / 10.0f);
  const Tensor x = tensor_of<float>({1, 1, 3, 4}, squares);
  expect_upsample(x, resize({2, 2}, "linear", false, true), {1.457143, 2.714286, 7.171429, 10.0});
  expect_upsample(x, resize({2, 3}, "cubic", false, true),
                  {0.807697, 1.622757, 2.767122, 6.539114, 8.800927, 11.392047});
}

TEST(Upsample, nearest_uses_the_scale_that_is_given) {
  const Tensor x = tensor_of<float>({1, 1, 5}, {0, 1, 2, 3, 4});
  expect_upsample(x, resize({8}, "nearest", false, false, 1.7), {0, 0, 1, 1, 2, 2, 3, 4});
  expect_upsample(x, resize({3}, "nearest-exact"), {0, 2, 4});
}

TEST(Upsample, every_path_gives_the_same_numbers) {
  for (const char* mode : {"nearest", "linear", "cubic"})
    for (const bool antialias : {false, true}) {
      if (antialias && std::string(mode) == "nearest") continue;
      const Attrs attrs = resize({5, 47}, mode, false, antialias);
      const Tensor x = random_tensor({2, 21, 17, 33}, 9);
      const auto wide = run_op(Op::upsample, {to_double(x)}, attrs);
      const auto planes = run_op(Op::upsample, {x}, attrs);
      const auto last = run_op(Op::upsample, {x}, attrs, {.channels_last = true});
      ASSERT_TRUE(planes.ok() && last.ok());
      expect_near((*planes)[0], (*wide)[0], 1e-5);
      expect_near((*last)[0], (*wide)[0], 1e-5);
    }
}

Attrs sampler(const char* mode, const char* padding) {
  return {{"mode", std::string(mode)}, {"padding_mode", std::string(padding)}, {"align_corners", false}};
}

TEST(GridSampler, places_outside_and_nan_are_as_torch_has_them) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> values;
  for (int i = 1; i <= 12; ++i) values.push_back(static_cast<float>(i));
  const Tensor x = tensor_of<float>({1, 1, 3, 4}, values);
  const Tensor grid = tensor_of<float>({1, 1, 4, 2}, {0.1f, 0.2f, 1.1f, 0.2f, 1e20f, 0, nan, 0});
  const auto run = [&](const char* mode, const char* padding) {
    return values_of<float>((*run_op(Op::grid_sampler, {x, grid}, sampler(mode, padding)))[0]);
  };
  const auto expect = [&](const char* mode, const char* padding, std::vector<float> expected) {
    const std::vector<float> got = run(mode, padding);
    for (size_t i = 0; i < expected.size(); ++i) {
      if (std::isnan(expected[i]))
        EXPECT_TRUE(std::isnan(got[i])) << mode << ' ' << padding << ' ' << i;
      else
        EXPECT_NEAR(got[i], expected[i], 1e-4) << mode << ' ' << padding << ' ' << i;
    }
  };
  expect("bilinear", "zeros", {7.9f, 2.76f, 0, nan});
  expect("bilinear", "border", {7.9f, 9.2f, 8, 5});
  expect("bilinear", "reflection", {7.9f, 9.2f, 5, 5});
  expect("nearest", "zeros", {7, 0, 0, 0});
  expect("bicubic", "zeros", {8.718594f, 2.874084f, 0, nan});
  expect("bicubic", "reflection", {8.214995f, 9.714493f, 5, nan});
}

TEST(PixelShuffle, unshuffle_undoes_it) {
  const Tensor x = random_tensor({2, 12, 3, 5}, 2);
  const auto up = run_op(Op::pixel_shuffle, {x}, {{"factor", Dim(2)}});
  ASSERT_EQ((*up)[0].shape, (Shape{2, 3, 6, 10}));
  EXPECT_EQ(element_real((*up)[0], 1), element_real(x, 15));  // channel 1 goes right of channel 0
  const auto down = run_op(Op::pixel_unshuffle, {(*up)[0]}, {{"factor", Dim(2)}});
  expect_near((*down)[0], x, 0);
}

TEST(Im2Col, col2im_adds_up_every_window_that_holds_a_pixel) {
  Attrs attrs{
      {"kernel", Dims{2, 3}}, {"dilation", Dims{1, 2}}, {"padding", Dims{1, 4}}, {"stride", Dims{1, 1}}};
  const Tensor x = random_tensor({1, 2, 4, 6}, 4);
  const auto columns = run_op(Op::im2col, {x}, attrs);
  ASSERT_TRUE(columns.ok()) << columns.error().message();
  attrs.set("size", Dims{4, 6});
  const auto back = run_op(Op::col2im, {(*columns)[0]}, attrs);
  ASSERT_TRUE(back.ok()) << back.error().message();
  for (int64_t i = 0; i < x.count(); ++i)  // with this padding every pixel is in all 6 windows
    EXPECT_NEAR(element_real((*back)[0], i), 6 * element_real(x, i), 1e-5);
}

TEST(Im2Col, a_window_that_does_not_fit_is_refused) {
  const Attrs attrs{
      {"kernel", Dims{9, 9}}, {"dilation", Dims{1, 1}}, {"padding", Dims{0, 0}}, {"stride", Dims{1, 1}}};
  EXPECT_FALSE(run_op(Op::im2col, {random_tensor({1, 1, 4, 4}, 1)}, attrs).ok());
}

}  // namespace
}  // namespace sixfold
