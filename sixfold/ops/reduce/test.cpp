#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "sixfold/ops/op_test.h"

namespace sixfold {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Attrs over(Shape dims, bool keepdim = false, double correction = 1) {
  return {{"dims", to_dims(dims)}, {"keepdim", keepdim}, {"correction", correction}};
}
Attrs along(int64_t dim, bool keepdim = false) { return {{"dim", Dim(dim)}, {"keepdim", keepdim}}; }

// The values behind every output element, in row-major order of the output.
std::vector<std::vector<double>> behind(const Tensor& x, const Shape& dims) {
  std::map<Shape, std::vector<double>> groups;
  for (int64_t i = 0; i < x.count(); ++i) {
    Shape key(x.shape.size());
    int64_t rest = i;
    for (size_t d = x.shape.size(); d-- > 0; rest /= x.shape[d]) key[d] = rest % x.shape[d];
    for (const int64_t d : dims) key[static_cast<size_t>(d)] = 0;
    groups[key].push_back(element_real(x, i));
  }
  std::vector<std::vector<double>> out;
  for (auto& [key, values] : groups) out.push_back(std::move(values));
  return out;
}

double reference(Op op, const std::vector<double>& v) {
  double sum = 0, product = 1, squares = 0;
  for (const double x : v) sum += x, product *= x;
  const auto n = static_cast<double>(v.size());
  for (const double x : v) squares += (x - sum / n) * (x - sum / n);
  switch (op) {
    case Op::sum:
      return sum;
    case Op::mean:
      return sum / n;
    case Op::prod:
      return product;
    case Op::amax:
      return *std::max_element(v.begin(), v.end());
    case Op::amin:
      return *std::min_element(v.begin(), v.end());
    default:
      return squares / (n - 1);
  }
}

void expect_reduction(Op op, const Tensor& x, const Shape& dims, RunOptions options = {},
                      bool keepdim = false) {
  const auto out = run_op(op, {x}, over(dims, keepdim), options);
  ASSERT_TRUE(out.ok()) << out.error().message();
  const auto groups = behind(x, dims);
  ASSERT_EQ((*out)[0].count(), static_cast<int64_t>(groups.size()));
  for (size_t i = 0; i < groups.size(); ++i) {
    const double expected = reference(op, groups[i]);
    double scale = 1 + std::abs(expected);  // of sums: what was added, as the total may cancel
    for (const double v : groups[i]) scale += op == Op::sum ? std::abs(v) : 0;
    ASSERT_NEAR(element_real((*out)[0], static_cast<int64_t>(i)), expected, 1.2e-7 * scale)
        << to_text(op) << " over " << cat(dims) << " of " << cat(x.shape) << ", element " << i;
  }
}

TEST(Reduce, equals_its_definition_over_any_axes) {
  const Tensor x = random_tensor({2, 33, 3, 45}, 1);
  for (const Op op : {Op::sum, Op::mean, Op::prod, Op::amax, Op::amin, Op::var})
    for (const Shape& dims :
         {Shape{0}, {1}, {2}, {3}, {0, 1}, {0, 2}, {0, 3}, {1, 3}, {2, 3}, {0, 2, 3}, {0, 1, 2, 3}})
      for (const Tensor& t : {x, to_double(x)}) expect_reduction(op, t, dims);
  expect_reduction(Op::sum, random_tensor({1000, 3}, 2), {1});
  expect_reduction(Op::sum, random_tensor({1000, 3}, 2), {0});
}

TEST(Reduce, mean_reads_channels_last_with_and_without_keepdim) {
  const Tensor x = random_tensor({2, 70, 6, 7}, 3);
  for (const Shape& dims : {Shape{2, 3}, {1}, {0}, {3}, {0, 2, 3}, {0, 1}})
    for (const bool keepdim : {false, true})
      expect_reduction(Op::mean, x, dims, {.channels_last = true}, keepdim);
}

TEST(Reduce, long_sums_keep_their_digits_for_any_number_of_threads) {
  const Tensor row = tensor_of<float>({1 << 20}, std::vector<float>(1 << 20, 0.1f));
  Tensor columns = row;
  columns.shape = {1 << 16, 16};
  for (const Tensor& x : {row, columns}) {
    const float one = values_of<float>((*run_op(Op::sum, {x}, over({0}), {.threads = 1}))[0])[0];
    EXPECT_EQ(one, values_of<float>((*run_op(Op::sum, {x}, over({0}), {.threads = 2}))[0])[0]);
    EXPECT_NEAR(one / (0.1f * static_cast<float>(x.shape[0])), 1.0f, 1e-6);
  }
}

TEST(Reduce, variance_keeps_its_digits_far_from_zero) {
  std::vector<float> v(1000);
  for (size_t i = 0; i < v.size(); ++i) v[i] = 10000.0f + static_cast<float>(i % 2);
  EXPECT_NEAR(values_of<float>((*run_op(Op::var, {tensor_of<float>({1000}, v)}, over({0}, false, 0)))[0])[0],
              0.25, 1e-6);
}

TEST(Reduce, variance_over_too_few_elements_divides_by_zero) {
  EXPECT_TRUE(
      std::isnan(values_of<float>((*run_op(Op::var, {tensor_of<float>({1}, {3})}, over({0})))[0])[0]));
  EXPECT_EQ(values_of<float>((*run_op(Op::var, {tensor_of<float>({2}, {1, 2})}, over({0}, false, 5)))[0])[0],
            kInfinity);
}

TEST(Reduce, an_extreme_with_a_nan_is_nan) {
  std::vector<float> v(200, 1.0f);
  v[77] = kNan;
  for (const Op op : {Op::amax, Op::amin})
    for (const Shape& shape : {Shape{200, 1}, Shape{100, 2}, Shape{20, 10}, Shape{2, 100}})
      for (const int64_t dim : {0, 1}) {
        const auto out = run_op(op, {tensor_of<float>(shape, v)}, over({dim}));
        int64_t nans = 0;
        for (const float y : values_of<float>((*out)[0])) nans += std::isnan(y);
        EXPECT_EQ(nans, 1) << cat(shape) << " over " << dim;
      }
}

TEST(Reduce, nothing_sums_to_0_averages_to_nan_and_has_no_maximum) {
  const Tensor x = tensor_of<float>({0, 2}, {});
  EXPECT_EQ(values_of<float>((*run_op(Op::sum, {x}, over({0})))[0]), (std::vector<float>{0, 0}));
  EXPECT_EQ(values_of<float>((*run_op(Op::prod, {x}, over({0})))[0]), (std::vector<float>{1, 1}));
  EXPECT_TRUE(std::isnan(values_of<float>((*run_op(Op::mean, {x}, over({0})))[0])[1]));
  EXPECT_EQ((*run_op(Op::amax, {x}, over({1})))[0].count(), 0);
  EXPECT_FALSE(run_op(Op::amax, {x}, over({0})).ok());
}

TEST(Reduce, integers_wrap_around_and_bools_combine) {
  const Tensor x = tensor_of<int64_t>({2, 2}, {std::numeric_limits<int64_t>::max(), 3, 1, 4});
  EXPECT_EQ(values_of<int64_t>((*run_op(Op::sum, {x}, over({0})))[0]),
            (std::vector<int64_t>{std::numeric_limits<int64_t>::min(), 7}));
  const Tensor b = tensor_of<bool>({2, 2}, {true, false, true, true});
  EXPECT_EQ(values_of<bool>((*run_op(Op::all, {b}, over({1})))[0]), (std::vector<bool>{false, true}));
  EXPECT_EQ(values_of<bool>((*run_op(Op::any, {b}, over({0, 1})))[0]), (std::vector<bool>{true}));
}

TEST(Reduce, a_scalar_reduces_to_itself) {
  EXPECT_EQ(values_of<float>((*run_op(Op::sum, {tensor_of<float>({}, {4})}, over({})))[0]),
            (std::vector<float>{4}));
}

TEST(Reduce, an_axis_outside_the_tensor_is_refused) {
  EXPECT_FALSE(run_op(Op::sum, {random_tensor({2, 3}, 1)}, over({2})).ok());
  EXPECT_FALSE(run_op(Op::sum, {random_tensor({2, 3}, 1)}, over({1, 1})).ok());
  EXPECT_FALSE(run_op(Op::argmax, {random_tensor({2, 3}, 1)}, along(2)).ok());
}

TEST(ArgReduce, takes_the_first_of_equals_and_nan_before_all) {
  std::vector<float> v(60, 1.0f);
  v[20] = v[40] = 5.0f;
  const auto index = [](Op op, const Tensor& x) {
    return values_of<int64_t>((*run_op(op, {x}, along(0)))[0])[0];
  };
  EXPECT_EQ(index(Op::argmax, tensor_of<float>({60}, v)), 20);
  EXPECT_EQ(index(Op::argmin, tensor_of<float>({60}, v)), 0);
  EXPECT_EQ(index(Op::argmax, tensor_of<float>({4}, {1, 3, 2, 3})), 1);
  v[33] = v[50] = kNan;
  EXPECT_EQ(index(Op::argmax, tensor_of<float>({60}, v)), 33);
  EXPECT_EQ(index(Op::argmin, tensor_of<float>({60}, v)), 33);
  EXPECT_EQ(index(Op::argmin, tensor_of<float>({4}, {1, kNan, 0, kNan})), 1);
}

TEST(ArgReduce, works_along_outer_axes) {
  const Tensor x = random_tensor({5, 9, 70}, 4);
  const auto out = run_op(Op::argmax, {x}, along(1, true));
  EXPECT_EQ((*out)[0].shape, (Shape{5, 1, 70}));
  const auto groups = behind(x, {1});
  for (size_t i = 0; i < groups.size(); ++i)
    ASSERT_EQ(element_integer((*out)[0], static_cast<int64_t>(i)),
              std::max_element(groups[i].begin(), groups[i].end()) - groups[i].begin());
}

TEST(Cumulate, sums_products_and_logs_run_along_any_axis) {
  const Tensor x = tensor_of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(values_of<float>((*run_op(Op::cumsum, {x}, along(1)))[0]),
            (std::vector<float>{1, 3, 6, 4, 9, 15}));
  EXPECT_EQ(values_of<float>((*run_op(Op::cumsum, {x}, along(0)))[0]),
            (std::vector<float>{1, 2, 3, 5, 7, 9}));
  EXPECT_EQ(values_of<float>((*run_op(Op::cumprod, {x}, along(1)))[0]),
            (std::vector<float>{1, 2, 6, 4, 20, 120}));
  const auto y = values_of<float>((*run_op(Op::logcumsumexp, {x}, along(1)))[0]);
  EXPECT_NEAR(y[2], std::log(std::exp(1) + std::exp(2) + std::exp(3)), 1e-6);
  const auto z =
      values_of<float>((*run_op(Op::logcumsumexp, {tensor_of<float>({2}, {-kInfinity, 1})}, along(0)))[0]);
  EXPECT_EQ(z, (std::vector<float>{-kInfinity, 1}));
}

TEST(Cumulate, running_extremes_take_the_last_of_equals_and_keep_nan) {
  const auto out = run_op(Op::cummax, {tensor_of<float>({6}, {1, 1, 0, kNan, 9, kNan})}, along(0));
  EXPECT_EQ(values_of<int64_t>((*out)[1]), (std::vector<int64_t>{0, 1, 1, 3, 3, 5}));
  EXPECT_EQ(values_of<float>((*out)[0])[2], 1);
  EXPECT_TRUE(std::isnan(values_of<float>((*out)[0])[4]));
}

}  // namespace
}  // namespace sixfold
