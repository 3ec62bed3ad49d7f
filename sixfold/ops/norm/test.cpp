#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "sixfold/cpu/split.h"
#include "sixfold/ops/op_test.h"

namespace sixfold {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Softmax, equals_its_definition_along_any_axis) {
  const Tensor x = random_tensor({3, 41, 133}, 1);
  for (const Op op : {Op::softmax, Op::log_softmax})
    for (int64_t dim = 0; dim < 3; ++dim)
      for (const Tensor& t : {x, to_double(x)}) {
        const auto out = run_op(op, {t}, {{"dim", Dim(dim)}});
        ASSERT_TRUE(out.ok()) << out.error().message();
        const cpu::AxisSplit s = cpu::split_at(x.shape, dim);
        for (int64_t i = 0; i < x.count(); ++i) {
          const int64_t first = i / (s.extent * s.inner) * s.extent * s.inner + i % s.inner;
          double sum = 0;
          for (int64_t k = 0; k < s.extent; ++k) sum += std::exp(element_real(x, first + k * s.inner));
          const double expected = std::exp(element_real(x, i)) / sum;
          ASSERT_NEAR(element_real((*out)[0], i), op == Op::softmax ? expected : std::log(expected), 2e-6);
        }
      }
}

TEST(Softmax, a_row_without_a_finite_maximum_is_nan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> rows = {-kInfinity, -kInfinity, 1, kInfinity, nan, 0, -kInfinity, 0};
  for (const Op op : {Op::softmax, Op::log_softmax}) {
    const auto y = values_of<float>((*run_op(op, {tensor_of<float>({4, 2}, rows)}, {{"dim", Dim(1)}}))[0]);
    for (size_t i = 0; i < 6; ++i) EXPECT_TRUE(std::isnan(y[i])) << i;
    EXPECT_EQ(y[6], op == Op::softmax ? 0 : -kInfinity);
    EXPECT_EQ(y[7], op == Op::softmax ? 1 : 0);
    const std::vector<float> columns = {-kInfinity, 1, nan, -kInfinity, -kInfinity, kInfinity, 0, 0};
    const auto z = values_of<float>((*run_op(op, {tensor_of<float>({2, 4}, columns)}, {{"dim", Dim(0)}}))[0]);
    for (const size_t i : {0u, 1u, 2u, 4u, 5u, 6u}) EXPECT_TRUE(std::isnan(z[i])) << i;
    EXPECT_EQ(z[7], op == Op::softmax ? 1 : 0);
  }
}

TEST(LogSoftmax, keeps_small_differences_of_large_inputs) {
  const auto y = values_of<float>(
      (*run_op(Op::log_softmax, {tensor_of<float>({2}, {1e6f, 1e6f})}, {{"dim", Dim(0)}}))[0]);
  EXPECT_NEAR(y[0], -std::log(2.0f), 1e-6);
}

TEST(LogSoftmax, of_halves_shares_one_rounded_logarithm) {
  const auto y = values_of<Half>(
      (*run_op(Op::log_softmax, {tensor_of<Half>({3}, {1.0f, 2.0f, 3.0f})}, {{"dim", Dim(0)}}))[0]);
  const float log_sum = Half(std::log(static_cast<float>(Half(1 + std::exp(-1.0f) + std::exp(-2.0f)))));
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(static_cast<float>(y[static_cast<size_t>(i)]),
              static_cast<float>(Half(static_cast<float>(i - 2) - log_sum)));
}

// [groups of x][n] normalized about their mean (or zero) in double.
std::vector<double> normalized(const Tensor& x, int64_t n, double eps, bool rms) {
  std::vector<double> out;
  for (int64_t base = 0; base < x.count(); base += n) {
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < n && !rms; ++i) mean += element_real(x, base + i) / static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i) squares += std::pow(element_real(x, base + i) - mean, 2);
    for (int64_t i = 0; i < n; ++i)
      out.push_back((element_real(x, base + i) - mean) / std::sqrt(squares / static_cast<double>(n) + eps));
  }
  return out;
}

TEST(LayerNorm, normalizes_trailing_axes_with_or_without_parameters) {
  const Tensor x = random_tensor({4, 3, 37}, 1), w = random_tensor({3, 37}, 2), b = random_tensor({3, 37}, 3);
  for (const Op op : {Op::layer_norm, Op::rms_norm}) {
    const std::vector<double> expected = normalized(x, 3 * 37, 1e-5, op == Op::rms_norm);
    for (const bool weight : {false, true})
      for (const bool bias : {false, true}) {
        if (bias && op == Op::rms_norm) continue;
        std::vector<Tensor> in = {x, weight ? w : Tensor()};
        if (op == Op::layer_norm) in.push_back(bias ? b : Tensor());
        const auto out = run_op(op, in, {{"axes", Dim(2)}, {"eps", 1e-5}});
        ASSERT_TRUE(out.ok()) << out.error().message();
        for (int64_t i = 0; i < x.count(); ++i) {
          const double scaled = expected[static_cast<size_t>(i)] * (weight ? element_real(w, i % 111) : 1.0);
          ASSERT_NEAR(element_real((*out)[0], i), scaled + (bias ? element_real(b, i % 111) : 0.0), 2e-6);
        }
      }
  }
}

TEST(LayerNorm, a_weight_of_another_shape_is_refused) {
  const Tensor x = random_tensor({4, 8}, 1), w = random_tensor({7}, 2);
  EXPECT_FALSE(run_op(Op::layer_norm, {x, w}, {{"axes", Dim(1)}, {"eps", 1e-5}}).ok());
  EXPECT_FALSE(run_op(Op::layer_norm, {x}, {{"axes", Dim(3)}, {"eps", 1e-5}}).ok());
  EXPECT_FALSE(run_op(Op::group_norm, {x, w}, {{"groups", Dim(2)}, {"eps", 1e-5}}).ok());
  EXPECT_FALSE(run_op(Op::batch_norm, {x, w, w, w, w}, {{"eps", 1e-5}}).ok());
}

TEST(GroupNorm, normalizes_groups_of_channels) {
  const Tensor x = random_tensor({2, 6, 5, 7}, 1), w = random_tensor({6}, 2), b = random_tensor({6}, 3);
  const std::vector<double> expected = normalized(x, 2 * 35, 1e-5, false);
  const auto out = run_op(Op::group_norm, {x, w, b}, {{"groups", Dim(3)}, {"eps", 1e-5}});
  ASSERT_TRUE(out.ok()) << out.error().message();
  for (int64_t i = 0; i < x.count(); ++i) {
    const int64_t channel = i / 35 % 6;
    ASSERT_NEAR(element_real((*out)[0], i),
                expected[static_cast<size_t>(i)] * element_real(w, channel) + element_real(b, channel), 2e-6);
  }
}

TEST(BatchNorm, uses_given_statistics_in_both_layouts) {
  const Tensor w = random_tensor({19}, 2), b = random_tensor({19}, 3), mean = random_tensor({19}, 4);
  const Tensor var = tensor_of<float>({19}, std::vector<float>(19, 0.7f));
  for (const Shape& shape : {Shape{3, 19, 4, 5}, Shape{3, 19, 8}, Shape{3, 19}})
    for (const bool channels_last : {false, true}) {
      const Tensor x = random_tensor(shape, 1);
      const int64_t inner = x.count() / (3 * 19);
      const auto out =
          run_op(Op::batch_norm, {x, w, b, mean, var}, {{"eps", 1e-3}}, {.channels_last = channels_last});
      ASSERT_TRUE(out.ok()) << out.error().message();
      for (int64_t i = 0; i < x.count(); ++i) {
        const int64_t c = i / inner % 19;
        const double v = (element_real(x, i) - element_real(mean, c)) / std::sqrt(0.7 + 1e-3);
        ASSERT_NEAR(element_real((*out)[0], i), v * element_real(w, c) + element_real(b, c), 1e-6);
      }
    }
}

}  // namespace
}  // namespace sixfold
