#include "sixfold/cpu/vector_math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

namespace sixfold::cpu {
namespace {

// How many floats lie between actual and expected, where |expected| is taken as at least `floor`: near a zero
// that the function reaches by subtraction only the absolute error means something.
double ulps(float actual, double expected, double floor) {
  if (std::isnan(actual) || std::isnan(expected))
    return std::isnan(actual) == std::isnan(expected) ? 0 : 1e30;
  if (std::isinf(actual) || std::isinf(static_cast<float>(expected)))
    return actual == static_cast<float>(expected) || std::abs(expected) > 3.4028e38 ? 0 : 1e30;
  const double size = std::max({std::abs(expected), floor, 0x1p-126});
  return std::abs(actual - expected) / std::ldexp(1.0, std::ilogb(size) - 23);
}

struct Case {
  Op op;
  double max_ulps;
  double floor = 0;
  float range = 3.4e38f;
};

TEST(VectorMath, is_within_a_few_ulp_of_libm_over_all_floats) {
  const Case cases[] = {
      {Op::exp, 1.5},
      {Op::exp2, 2},
      {Op::expm1, 2.5},
      {Op::log, 1.5},
      {Op::log1p, 3},
      {Op::log2, 3},
      {Op::sqrt, 0.6},
      {Op::rsqrt, 1.5},
      {Op::reciprocal, 0.6},
      {Op::sin, 3.5, 1e-4},
      {Op::cos, 3.5, 1e-4},
      {Op::tanh, 3},
      {Op::sigmoid, 3, 1e-30},
      {Op::erf, 2},
      {Op::silu, 4, 1e-30},
      {Op::mish, 4, 1e-30},
      {Op::hardswish, 3},
      {Op::hardsigmoid, 2, 1},
      {Op::ceil, 0},
      {Op::floor, 0},
      {Op::round, 0},
      {Op::trunc, 0},
      {Op::sign, 0},
      {Op::relu, 0},
      {Op::abs, 0},
      {Op::neg, 0},
      {Op::tan, 4},
      {Op::asin, 4},
      {Op::lgamma, 4, 1e-2},
      {Op::erfinv, 2},
  };
  std::vector<float> x;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 20011)
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  for (const float special :
       {INFINITY, -INFINITY, NAN, 0.0f, -0.0f, 1.0f, -1.0f, 88.7f, -103.9f, 0.5f, 2.5f, 1e-42f})
    x.push_back(special);
  std::vector<float> y(x.size());
  for (const Case& c : cases) {
    auto f = unary_f32(c.op, {});
    ASSERT_TRUE(f.ok()) << to_text(c.op);
    (*f)(x.data(), y.data(), x.size());
    double worst = 0;
    float where = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::abs(x[i]) > c.range) continue;
      const double error = ulps(y[i], apply_unary<double>(c.op, x[i], {}), c.floor);
      if (error > worst) worst = error, where = x[i];
    }
    EXPECT_LE(worst, c.max_ulps) << to_text(c.op) << " at " << where;
  }
}

TEST(VectorMath, activations_take_their_attributes) {
  const std::vector<std::pair<Op, Attrs>> cases = {
      {Op::elu, {{"alpha", 1.67}, {"scale", 1.05}, {"input_scale", 1.0}}},
      {Op::leaky_relu, {{"slope", 0.2}}},
      {Op::softplus, {{"beta", 2.0}, {"threshold", 10.0}}},
      {Op::clamp, {{"min", -1.5}, {"max", Attr()}}},
      {Op::clamp, {{"min", Dim(2)}, {"max", Dim(1)}}},
      {Op::gelu, {{"approximate", std::string("none")}}},
      {Op::gelu, {{"approximate", std::string("tanh")}}},
  };
  std::vector<float> x, y;
  for (float v = -12; v < 12; v += 0.0137f) x.push_back(v);
  x.push_back(NAN);
  y.resize(x.size());
  for (const auto& [op, attrs] : cases) {
    auto f = unary_f32(op, attrs);
    ASSERT_TRUE(f.ok());
    (*f)(x.data(), y.data(), x.size());
    const UnaryParams params = unary_params(op, attrs);
    // gelu subtracts two numbers near 1 below -3, as torch does.
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_LE(ulps(y[i], apply_unary<double>(op, x[i], params), op == Op::gelu ? 0.5 : 0), 6)
          << to_text(op) << " at " << x[i];
  }
}

TEST(VectorMath, a_result_does_not_depend_on_its_place) {
  std::vector<float> x(67), whole(67), parts(67);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.37f * static_cast<float>(i) - 11;
  sigmoid_f32(x.data(), whole.data(), x.size());
  for (size_t i = 0; i < x.size(); ++i) sigmoid_f32(&x[i], &parts[i], 1);
  EXPECT_EQ(whole, parts);
}

TEST(VectorMath, the_inverse_of_erf_is_one) {
  for (const double y : {-0.999999, -0.7, -0.5, -1e-5, 0.0, 0.3, 0.6, 0.98, 0.9999999})
    EXPECT_NEAR(std::erf(erf_inverse(y)), y, 1e-14);
  EXPECT_EQ(erf_inverse(1), INFINITY);
}

TEST(VectorMath, exp_sum_adds_what_it_writes) {
  std::vector<float> x(37), y(37);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.1f * static_cast<float>(i);
  const float sum = exp_sum_f32(x.data(), 0.5f, 1.0f, y.data(), x.size());
  double expected = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(y[i], std::exp(0.5 * x[i] - 1), 1e-6);
    expected += y[i];
  }
  EXPECT_NEAR(sum, expected, 1e-5);
}

}  // namespace
}  // namespace sixfold::cpu
