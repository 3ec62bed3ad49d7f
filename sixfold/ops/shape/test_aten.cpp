#include <gtest/gtest.h>

#include <cmath>

#include "sixfold/ops/aten_call_test.h"
#include "sixfold/ops/op_test.h"

namespace sixfold {
namespace {

TEST(ShapeRules, the_sign_bit_of_zero_and_nan_counts) {
  const Tensor x =
      tensor_of<float>({5}, {-1.f, 0.f, -0.f, std::copysign(NAN, 1.f), std::copysign(NAN, -1.f)});
  const Tensor y = run_aten("aten.signbit.default", {{"self", x}}, {{DType::boolean, {5}}})[0];
  EXPECT_EQ(values_of<bool>(y), (std::vector<bool>{true, false, true, false, true}));
}

TEST(ShapeRules, a_view_as_another_dtype_reads_the_bytes) {
  const Tensor x = tensor_of<int32_t>({2}, {0x3f800000, 0});
  const Tensor y =
      run_aten("aten.view.dtype", {{"self", x}, {"dtype", Attr(DType::f32)}}, {{DType::f32, {2}}})[0];
  EXPECT_EQ(values_of<float>(y), (std::vector<float>{1.f, 0.f}));
  const Tensor z =
      run_aten("aten.view.dtype", {{"self", x}, {"dtype", Attr(DType::u8)}}, {{DType::u8, {8}}})[0];
  EXPECT_EQ(values_of<uint8_t>(z), (std::vector<uint8_t>{0, 0, 0x80, 0x3f, 0, 0, 0, 0}));
}

TEST(ShapeRules, repeats_that_are_data_need_a_total) {
  const Tensor y = run_aten("aten.repeat_interleave.Tensor",
                            {{"repeats", tensor_of<int64_t>({3}, {0, 2, 1})}, {"output_size", Attr(Dim(3))}},
                            {{DType::i64, {3}}})[0];
  EXPECT_EQ(values_of<int64_t>(y), (std::vector<int64_t>{1, 1, 2}));
}

TEST(ShapeRules, fftshift_and_back_is_nothing_for_odd_extents) {
  const Tensor x = tensor_of<float>({5}, {0, 1, 2, 3, 4});
  const Tensor y = run_aten("aten.fft_fftshift.default", {{"self", x}}, {{DType::f32, {5}}})[0];
  EXPECT_EQ(values_of<float>(y), (std::vector<float>{3, 4, 0, 1, 2}));
  const Tensor z = run_aten("aten.fft_ifftshift.default", {{"self", y}}, {{DType::f32, {5}}})[0];
  EXPECT_EQ(values_of<float>(z), values_of<float>(x));
}

TEST(ShapeRules, a_periodic_window_is_a_longer_one_without_its_end) {
  const auto hann = [](int64_t length, bool periodic) {
    return values_of<float>(run_aten("aten.hann_window.periodic",
                                     {{"window_length", Attr(Dim(length))}, {"periodic", Attr(periodic)}},
                                     {{DType::f32, {Dim(length)}}})[0]);
  };
  std::vector<float> longer = hann(5, false);
  longer.pop_back();
  EXPECT_EQ(hann(4, true), longer);
  EXPECT_FLOAT_EQ(longer[2], 1.f);
}

}  // namespace
}  // namespace sixfold
