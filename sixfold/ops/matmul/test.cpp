#include <gtest/gtest.h>

#include "sixfold/ops/op_test.h"

namespace sixfold {
namespace {

const Attrs kPlain{{"activation", std::string("none")}};

// f32 is near f64, which runs the definition, and does not depend on the number of threads.
void expect_exact(Op op, const std::vector<Tensor>& in, const Attrs& attrs = kPlain) {
  std::vector<Tensor> wide;
  for (const Tensor& t : in) wide.push_back(t.dtype == DType::none ? t : to_double(t));
  const auto expected = run_op(op, wide, attrs);
  ASSERT_TRUE(expected.ok()) << expected.error().message();
  for (const bool constant : {false, true}) {
    const auto y = run_op(op, in, attrs, {.threads = 2, .constant_inputs = constant});
    const auto z = run_op(op, in, attrs, {.threads = 1, .constant_inputs = constant});
    ASSERT_TRUE(y.ok()) << y.error().message();
    expect_near(y->at(0), expected->at(0), 3e-4);
    EXPECT_EQ(values_of<float>(y->at(0)), values_of<float>(z->at(0))) << "threads change bits";
  }
}

TEST(Matmul, integers_match_hand_computed_values) {
  const auto y =
      run_op(Op::matmul,
             {tensor_of<int32_t>({2, 2}, {1, 2, 3, 4}), tensor_of<int32_t>({2, 3}, {1, 2, 3, 4, 5, 6})}, {});
  ASSERT_TRUE(y.ok()) << y.error().message();
  EXPECT_EQ(values_of<int32_t>(y->at(0)), (std::vector<int32_t>{9, 12, 15, 19, 26, 33}));
}
TEST(Matmul, batches_broadcast) {
  expect_exact(Op::matmul, {random_tensor({2, 1, 5, 7}, 1), random_tensor({3, 7, 4}, 2)});
  expect_exact(Op::matmul, {random_tensor({5, 7}, 1), random_tensor({2, 3, 7, 4}, 2)});
  expect_exact(Op::matmul, {random_tensor({4, 3, 5, 7}, 1), random_tensor({7, 4}, 2)});
}
TEST(Matmul, attention_sizes_are_exact) {
  expect_exact(Op::matmul, {random_tensor({12, 197, 64}, 1), random_tensor({12, 64, 197}, 2)});
}
TEST(Matmul, large_matrices_are_exact) {
  expect_exact(Op::matmul, {random_tensor({300, 257}, 1), random_tensor({257, 411}, 2)});
}
TEST(Matmul, a_column_and_a_row_are_exact) {
  expect_exact(Op::matmul, {random_tensor({300, 257}, 1), random_tensor({257, 1}, 2)});
  expect_exact(Op::matmul, {random_tensor({1, 257}, 1), random_tensor({257, 300}, 2)});
}
TEST(Matmul, no_inner_extent_gives_zeros) {
  const auto y = run_op(Op::matmul, {random_tensor({2, 0}, 1), random_tensor({0, 3}, 2)}, {});
  ASSERT_TRUE(y.ok());
  EXPECT_EQ(values_of<float>(y->at(0)), std::vector<float>(6, 0.0f));
}
TEST(Matmul, inner_extents_that_differ_are_refused) {
  const auto y = run_op(Op::matmul, {random_tensor({2, 5}, 1), random_tensor({4, 3}, 2)}, {});
  ASSERT_FALSE(y.ok());
  EXPECT_NE(y.error().message().find("5 and 4"), std::string::npos) << y.error().message();
}

TEST(Linear, few_rows_are_exact) {
  for (int64_t rows = 1; rows <= 5; ++rows)
    expect_exact(Op::linear,
                 {random_tensor({rows, 131}, 1), random_tensor({999, 131}, 2), random_tensor({999}, 3)});
}
TEST(Linear, many_rows_are_exact) {
  expect_exact(Op::linear,
               {random_tensor({2, 197, 192}, 1), random_tensor({576, 192}, 2), random_tensor({576}, 3)});
  expect_exact(Op::linear, {random_tensor({16, 300}, 1), random_tensor({1000, 300}, 2)});
}
TEST(Linear, activation_follows_the_bias) {
  const Attrs gelu{{"activation", std::string("gelu")}, {"approximate", std::string("none")}};
  for (const int64_t rows : {1, 64})
    expect_exact(Op::linear,
                 {random_tensor({rows, 64}, 1), random_tensor({80, 64}, 2), random_tensor({80}, 3)}, gelu);
}
TEST(Linear, bias_of_another_extent_is_refused) {
  EXPECT_FALSE(
      run_op(Op::linear, {random_tensor({2, 4}, 1), random_tensor({3, 4}, 2), random_tensor({4}, 3)}, kPlain)
          .ok());
}

}  // namespace
}  // namespace sixfold
