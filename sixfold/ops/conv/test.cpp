#include <gtest/gtest.h>

#include "sixfold/ops/op_test.h"

namespace sixfold {
namespace {

struct Case {
  Shape x, w;
  Shape stride, padding, padding_end, dilation;
  int64_t groups = 1;
  bool transposed = false;
  Shape output_padding;
  std::string activation = "none";
  bool bias = true, residual = false;
};

Attrs attrs_of(Case c) {
  const size_t n = c.x.size() - 2;
  for (Shape* list : {&c.stride, &c.dilation})
    if (list->empty()) list->assign(n, 1);
  if (c.padding.empty()) c.padding.assign(n, 0);
  if (c.padding_end.empty()) c.padding_end = c.padding;
  if (c.output_padding.empty()) c.output_padding.assign(n, 0);
  return {{"stride", to_dims(c.stride)},
          {"padding", to_dims(c.padding)},
          {"padding_end", to_dims(c.padding_end)},
          {"dilation", to_dims(c.dilation)},
          {"groups", Dim(c.groups)},
          {"transposed", c.transposed},
          {"output_padding", to_dims(c.output_padding)},
          {"activation", c.activation},
          {"approximate", std::string("none")},
          {"min", 0.0},
          {"max", 6.0}};
}

std::vector<Tensor> operands_of(const Case& c) {
  std::vector<Tensor> in = {random_tensor(c.x, 1), random_tensor(c.w, 2)};
  if (c.bias)
    in.push_back(random_tensor({c.transposed ? c.w[1] * c.groups : c.w[0]}, 3));
  else
    in.emplace_back();
  if (c.residual) {
    std::vector<Type> types;
    for (const Tensor& t : in) types.push_back({t.dtype, to_dims(t.shape)});
    const auto out = infer_types(Op::convolution, types, attrs_of(c));
    EXPECT_TRUE(out.ok()) << (out.ok() ? "" : out.error().message());
    if (out.ok()) in.push_back(random_tensor(static_shape(out->at(0).dims), 4));
  }
  return in;
}

// f32 in both layouts, with weights known and not known at plan time, is near f64, which runs the definition.
void expect_exact(const Case& c) {
  const std::vector<Tensor> in = operands_of(c);
  std::vector<Tensor> wide;
  for (const Tensor& t : in) wide.push_back(t.dtype == DType::none ? t : to_double(t));
  const auto expected = run_op(Op::convolution, wide, attrs_of(c));
  ASSERT_TRUE(expected.ok()) << expected.error().message();
  for (const bool channels_last : {false, true}) {
    for (const bool constant : {false, true}) {
      const RunOptions two{.threads = 2, .channels_last = channels_last, .constant_inputs = constant};
      RunOptions one = two;
      one.threads = 1;
      const auto y = run_op(Op::convolution, in, attrs_of(c), two),
                 z = run_op(Op::convolution, in, attrs_of(c), one);
      ASSERT_TRUE(y.ok()) << y.error().message();
      ASSERT_TRUE(z.ok());
      expect_near(y->at(0), expected->at(0), 2e-4);
      EXPECT_EQ(values_of<float>(y->at(0)), values_of<float>(z->at(0))) << "threads change bits";
    }
  }
}

TEST(Convolution, plain_sum_matches_hand_computed_values) {
  const Tensor x = tensor_of<int64_t>({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}),
               w = tensor_of<int64_t>({1, 1, 2, 2}, {1, 2, 3, 4});
  Case c{.x = {1, 1, 3, 3}, .w = {1, 1, 2, 2}};
  c.padding = {0, 0};
  c.padding_end = {1, 0};
  const auto y = run_op(Op::convolution, {x, w}, attrs_of(c));
  ASSERT_TRUE(y.ok()) << y.error().message();
  EXPECT_EQ(values_of<int64_t>(y->at(0)), (std::vector<int64_t>{37, 47, 67, 77, 23, 26}));
}
TEST(Convolution, transposed_spreads_each_input) {
  const Tensor x = tensor_of<int64_t>({1, 1, 2}, {1, 10}), w = tensor_of<int64_t>({1, 1, 3}, {1, 2, 3});
  const Case c{.x = {1, 1, 2},
               .w = {1, 1, 3},
               .stride = {2},
               .padding = {},
               .padding_end = {},
               .dilation = {},
               .groups = 1,
               .transposed = true,
               .output_padding = {1}};
  const auto y = run_op(Op::convolution, {x, w}, attrs_of(c));
  ASSERT_TRUE(y.ok()) << y.error().message();
  EXPECT_EQ(values_of<int64_t>(y->at(0)), (std::vector<int64_t>{1, 2, 13, 20, 30, 0}));
}
TEST(Convolution, padded_3x3_is_exact) {
  expect_exact({.x = {1, 32, 28, 28}, .w = {64, 32, 3, 3}, .padding = {1, 1}});
}
TEST(Convolution, first_layer_is_exact) {
  expect_exact({.x = {1, 3, 64, 48}, .w = {32, 3, 3, 3}, .stride = {2, 2}, .padding = {1, 1}});
}
TEST(Convolution, pointwise_with_batch_is_exact) {
  expect_exact({.x = {3, 40, 14, 14}, .w = {136, 40, 1, 1}});
}
TEST(Convolution, strided_pointwise_is_exact) {
  expect_exact({.x = {1, 64, 28, 28}, .w = {128, 64, 1, 1}, .stride = {2, 2}});
}
TEST(Convolution, small_images_split_over_channels_are_exact) {
  expect_exact({.x = {1, 128, 7, 7},
                .w = {272, 128, 3, 3},
                .padding = {1, 1},
                .activation = "relu",
                .residual = true});
}
TEST(Convolution, depthwise_is_exact) {
  expect_exact({.x = {1, 96, 56, 56}, .w = {96, 1, 3, 3}, .stride = {2, 2}, .padding = {1, 1}, .groups = 96});
}
TEST(Convolution, depthwise_multiplier_is_exact) {
  expect_exact({.x = {2, 6, 9, 9}, .w = {12, 1, 3, 3}, .padding = {1, 1}, .groups = 6});
}
TEST(Convolution, grouped_is_exact) {
  expect_exact({.x = {1, 32, 20, 20}, .w = {64, 8, 3, 3}, .padding = {1, 1}, .groups = 4});
  expect_exact({.x = {1, 6, 20, 20}, .w = {9, 2, 3, 3}, .padding = {1, 1}, .groups = 3});
}
TEST(Convolution, dilated_is_exact) {
  expect_exact({.x = {1, 16, 30, 30}, .w = {16, 16, 3, 3}, .padding = {6, 6}, .dilation = {6, 6}});
}
TEST(Convolution, uneven_padding_is_exact) {
  expect_exact({.x = {1, 16, 33, 31}, .w = {16, 16, 4, 2}, .padding = {1, 0}, .padding_end = {2, 1}});
}
TEST(Convolution, padding_beyond_the_kernel_is_exact) {
  expect_exact({.x = {1, 16, 12, 12}, .w = {64, 16, 3, 3}, .padding = {5, 5}});
}
TEST(Convolution, one_spatial_axis_is_exact) {
  expect_exact({.x = {2, 40, 300}, .w = {96, 40, 5}, .padding = {2}});
  expect_exact({.x = {1, 1, 4000}, .w = {24, 1, 64}, .stride = {4}, .padding = {30}});
}
TEST(Convolution, three_spatial_axes_are_exact) {
  expect_exact({.x = {1, 8, 9, 14, 14}, .w = {32, 8, 3, 3, 3}, .stride = {1, 2, 2}, .padding = {1, 1, 1}});
}
TEST(Convolution, transposed_is_exact) {
  for (const int64_t groups : {1, 4}) {
    expect_exact({.x = {2, 32, 9, 7},
                  .w = {32, 32 / groups, 3, 3},
                  .stride = {2, 2},
                  .padding = {1, 1},
                  .groups = groups,
                  .transposed = true,
                  .output_padding = {1, 0}});
  }
  expect_exact({.x = {1, 8, 5},
                .w = {8, 6, 4},
                .stride = {2},
                .dilation = {3},
                .transposed = true,
                .output_padding = {2}});
  expect_exact(
      {.x = {1, 128, 8, 8}, .w = {128, 128, 4, 4}, .stride = {2, 2}, .padding = {1, 1}, .transposed = true});
}
TEST(Convolution, activations_are_applied_last) {
  for (const char* activation :
       {"relu", "clamp", "hardswish", "silu", "gelu", "tanh", "sigmoid", "hardsigmoid"}) {
    expect_exact({.x = {1, 24, 14, 14},
                  .w = {40, 24, 3, 3},
                  .padding = {1, 1},
                  .activation = activation,
                  .residual = true});
    expect_exact({.x = {1, 24, 1, 1}, .w = {40, 24, 1, 1}, .activation = activation});
  }
}
TEST(Convolution, empty_batch_gives_an_empty_result) {
  const Case c{.x = {0, 4, 8, 8}, .w = {4, 4, 3, 3}};
  const auto y = run_op(Op::convolution, operands_of(c), attrs_of(c));
  ASSERT_TRUE(y.ok());
  EXPECT_EQ(y->at(0).shape, (Shape{0, 4, 6, 6}));
}
TEST(Convolution, wrong_channels_are_refused_with_both_numbers) {
  const Case c{.x = {1, 5, 8, 8}, .w = {4, 4, 3, 3}, .bias = false};
  const auto y = run_op(Op::convolution, operands_of(c), attrs_of(c));
  ASSERT_FALSE(y.ok());
  EXPECT_NE(y.error().message().find("has 5 channels"), std::string::npos) << y.error().message();
}
TEST(Convolution, kernel_larger_than_the_padded_input_is_refused) {
  const Case c{.x = {1, 4, 2, 8}, .w = {4, 4, 5, 3}, .padding = {1, 0}};
  EXPECT_FALSE(run_op(Op::convolution, operands_of(c), attrs_of(c)).ok());
}

}  // namespace
}  // namespace sixfold
