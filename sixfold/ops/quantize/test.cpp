#include "sixfold/ops/testing.h"

namespace sixfold {
namespace {

using testing::run_one;
using testing::run_op;
using testing::tensor_of;

Attrs attrs(Dims block, int64_t min, int64_t max, DType dtype) {
  return {{"block", std::move(block)}, {"quant_min", Dim(min)}, {"quant_max", Dim(max)}, {"dtype", dtype}};
}

TEST(Quantize, rounds_halves_to_even_and_clamps) {
  const Tensor x = tensor_of<float>({6}, {0.5f, 1.5f, -0.5f, 300.0f, -300.0f, 2.4f});
  const Tensor scale = tensor_of<float>({}, {1.0f}), zero = tensor_of<int32_t>({}, {3});
  EXPECT_EQ(run_one<int8_t>(Op::quantize, {x, scale, zero}, attrs({6}, -128, 127, DType::i8)),
            (std::vector<int8_t>{3, 5, 3, 127, -128, 5}));
  EXPECT_EQ(run_one<int32_t>(Op::quantize, {x, scale}, attrs({6}, INT32_MIN, INT32_MAX, DType::i32)),
            (std::vector<int32_t>{0, 2, 0, 300, -300, 2}));
}

TEST(Quantize, has_a_scale_per_channel_of_any_axis) {
  const Tensor x = tensor_of<float>({2, 2, 1}, {2, 4, 6, 8}), scale = tensor_of<float>({2}, {1, 2});
  EXPECT_EQ(run_one<uint8_t>(Op::quantize, {x, scale}, attrs({2, 1, 1}, 0, 255, DType::u8)),
            (std::vector<uint8_t>{2, 2, 6, 4}));
  EXPECT_EQ(run_one<uint8_t>(Op::quantize, {x, scale}, attrs({1, 2, 1}, 0, 255, DType::u8)),
            (std::vector<uint8_t>{2, 4, 3, 4}));
}

TEST(Dequantize, has_a_scale_per_block) {
  const Tensor q = tensor_of<int8_t>({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor scale = tensor_of<float>({2, 2}, {1, 10, 100, 1000}),
               zero = tensor_of<int64_t>({2, 2}, {1, 0, 0, 8});
  EXPECT_EQ(run_one<float>(Op::dequantize, {q, scale, zero}, attrs({1, 2}, -128, 127, DType::f32)),
            (std::vector<float>{0, 1, 30, 40, 500, 600, -1000, 0}));
}

TEST(Quantize, rejects_another_number_of_scales) {
  const Tensor x = tensor_of<float>({4}, {1, 2, 3, 4}), scale = tensor_of<float>({3}, {1, 2, 3});
  EXPECT_FALSE(run_op(Op::quantize, {x, scale}, attrs({2}, 0, 255, DType::u8)).ok());
}

}  // namespace
}  // namespace sixfold
