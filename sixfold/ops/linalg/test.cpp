#include <gtest/gtest.h>

#include <cmath>

#include "sixfold/ops/op_test.h"

namespace sixfold {
namespace {

std::vector<Tensor> run(const char* function, const std::vector<Tensor>& in, Attrs flags = {}) {
  flags.set("function", std::string(function));
  auto out = run_op(Op::linalg, in, flags);
  EXPECT_TRUE(out.ok()) << out.error().message();
  return out.ok() ? std::move(out).value() : std::vector<Tensor>{};
}
Tensor matrix(const Shape& shape, unsigned seed) { return to_double(random_tensor(shape, seed)); }
Tensor matmul(const Tensor& a, const Tensor& b) { return run_op(Op::matmul, {a, b}, {})->at(0); }
Tensor transpose(const Tensor& a) {
  Dims order;
  for (size_t i = 0; i < a.shape.size(); ++i) order.push_back(Dim(static_cast<int64_t>(i)));
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return run_op(Op::permute, {a}, {{"dims", order}})->at(0);
}
// Keeps entries on one side of the diagonal.
Tensor triangle(const Tensor& a, bool upper, bool unit) {
  std::vector<double> values = values_of<double>(a);
  const int64_t n = a.shape.back(), m = a.shape[a.shape.size() - 2];
  for (int64_t i = 0; i < a.count(); ++i) {
    const int64_t row = i / n % m, column = i % n;
    if (upper ? column < row : column > row) values[static_cast<size_t>(i)] = 0;
    if (unit && row == column) values[static_cast<size_t>(i)] = 1;
  }
  return tensor_of<double>(a.shape, values);
}

TEST(Linalg, cholesky_factors_multiply_back) {
  const Tensor a = matrix({2, 4, 4}, 1), positive = matmul(a, transpose(a));
  const auto out = run("cholesky", {positive});
  expect_near(matmul(out[0], transpose(out[0])), positive, 1e-12);
  EXPECT_EQ(values_of<int32_t>(out[1]), (std::vector<int32_t>{0, 0}));
}

TEST(Linalg, cholesky_says_which_minor_is_not_positive) {
  const Tensor a = tensor_of<double>({2, 2}, {1, 2, 2, 1});
  EXPECT_EQ(values_of<int32_t>(run("cholesky", {a})[1])[0], 2);
  EXPECT_FALSE(run_op(Op::linalg, {a}, {{"function", std::string("cholesky")}, {"check", true}}).ok());
}

TEST(Linalg, lu_gives_the_rows_in_the_order_that_it_says) {
  const Tensor a = matrix({4, 3}, 2);
  const auto out = run("lu", {a});
  const auto ordered = run_op(Op::index_select, {a, out[2]}, {{"dim", Dim(0)}})->at(0);
  const auto top =
      run_op(Op::slice, {out[0]}, {{"dim", Dim(0)}, {"start", Dim(0)}, {"end", Dim(3)}, {"step", Dim(1)}})
          ->at(0);
  expect_near(matmul(triangle(out[0], false, true), triangle(top, true, false)), ordered, 1e-12);
}

TEST(Linalg, solve_solves) {
  const Tensor a = matrix({3, 5, 5}, 3), b = matrix({3, 5, 2}, 4);
  expect_near(matmul(a, run("solve", {a, b})[0]), b, 1e-10);
  const Tensor singular = tensor_of<double>({2, 2}, {1, 2, 2, 4}), right = tensor_of<double>({2, 1}, {1, 1});
  EXPECT_FALSE(
      run_op(Op::linalg, {singular, right}, {{"function", std::string("solve")}, {"check", true}}).ok());
}

TEST(Linalg, qr_by_reflections_multiplies_back) {
  const Tensor a = matrix({5, 3}, 5);
  const auto out = run("geqrf", {a});
  const Tensor q = run("householder_product", {out[0], out[1]})[0];
  const Tensor r = triangle(
      run_op(Op::slice, {out[0]}, {{"dim", Dim(0)}, {"start", Dim(0)}, {"end", Dim(3)}, {"step", Dim(1)}})
          ->at(0),
      true, false);
  expect_near(matmul(q, r), a, 1e-12);
  expect_near(matmul(transpose(q), q), tensor_of<double>({3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1}), 1e-12);
}

TEST(Linalg, svd_multiplies_back_for_tall_and_wide_matrices) {
  for (const Shape& shape : {Shape{5, 3}, Shape{3, 5}, Shape{2, 4, 4}}) {
    const Tensor a = matrix(shape, 6);
    const auto out = run("svd", {a});
    Shape row = out[1].shape;
    row.insert(row.end() - 1, 1);
    const Tensor s = run_op(Op::reshape, {out[1]}, {{"shape", to_dims(row)}})->at(0);
    expect_near(matmul(run_op(Op::mul, {out[0], s}, {})->at(0), out[2]), a, 1e-12);
    const auto values = values_of<double>(out[1]);
    EXPECT_GE(values[0], values[1]);
  }
}

TEST(Linalg, eigenvalues_of_a_symmetric_matrix_rise) {
  const auto out = run("eigh", {tensor_of<double>({2, 2}, {2, 1, 1, 2})});
  expect_near(out[0], tensor_of<double>({2}, {1, 3}), 1e-14);
}

TEST(Linalg, exponential_of_a_rotation_rotates) {
  const auto out = run("exp", {tensor_of<double>({2, 2}, {0, -3, 3, 0})});
  expect_near(out[0], tensor_of<double>({2, 2}, {std::cos(3), -std::sin(3), std::sin(3), std::cos(3)}),
              1e-13);
}

TEST(Linalg, empty_matrices_are_matrices) {
  EXPECT_EQ(run("solve", {matrix({0, 0}, 1), matrix({0, 2}, 1)})[0].shape, (Shape{0, 2}));
  EXPECT_EQ(run("svd", {matrix({3, 0}, 1)})[1].shape, (Shape{0}));
}

}  // namespace
}  // namespace sixfold
