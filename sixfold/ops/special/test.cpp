#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "sixfold/ops/op_test.h"
#include "sixfold/ops/special/functions.h"

namespace sixfold {
namespace {

double value(const char* name, double a, double b = 0) { return special::find(name)->f(a, b); }
void expect_close(double a, double b) { EXPECT_NEAR(a, b, 1e-12 * std::max(1.0, std::fabs(b))); }

constexpr double kPi = std::numbers::pi;

TEST(Special, gamma_functions_have_their_known_values) {
  expect_close(value("digamma", 1), -std::numbers::egamma);
  expect_close(value("digamma", 0.5), -std::numbers::egamma - 2 * std::numbers::ln2);
  expect_close(value("digamma", -0.5), value("digamma", 0.5) + 2);
  EXPECT_TRUE(std::isnan(value("digamma", -3)));
  expect_close(value("zeta", 2, 1), kPi * kPi / 6);
  expect_close(value("zeta", 4, 2), std::pow(kPi, 4) / 90 - 1);
  expect_close(value("zeta", 2, -1.5), value("zeta", 2, 0.5) + 1 / 2.25 + 4);  // two terms before zero
  expect_close(value("igamma", 1, 2), 1 - std::exp(-2.0));
  expect_close(value("igammac", 1, 30), std::exp(-30.0));
  expect_close(value("igamma", 0.5, 0.3), std::erf(std::sqrt(0.3)));
  EXPECT_NEAR(value("igamma", 1e6, 1e6), 0.5, 1e-3);
  expect_close(value("erfcx", 1), std::exp(1.0) * std::erfc(1.0));
  expect_close(value("erfcx", 1e8), std::numbers::inv_sqrtpi / 1e8);
  expect_close(value("log_ndtr", 0), -std::numbers::ln2);
  expect_close(value("log_ndtr", -2), std::log(std::erfc(std::numbers::sqrt2) / 2));
}

// I K' - I' K = -1 / x ties both kinds and both orders; J Y' - J' Y = 2 / (pi x).
TEST(Special, bessel_functions_meet_their_wronskians) {
  for (const double x : {0.01, 0.5, 3.0, 19.0, 21.0, 100.0}) {
    expect_close(value("i0e", x) * value("bessel_k1e", x) + value("i1e", x) * value("bessel_k0e", x), 1 / x);
    expect_close(
        value("bessel_j1", x) * value("bessel_y0", x) - value("bessel_j0", x) * value("bessel_y1", x),
        2 / (kPi * x));
  }
  expect_close(value("i0", 2), std::exp(2.0) * value("i0e", 2));
  expect_close(value("bessel_k0", 1), 0.42102443824070834);
  expect_close(value("spherical_j0", 0.05), std::sin(0.05) / 0.05);
}

TEST(Special, airy_solves_its_equation) {
  for (const double x : {-12.0, -8.0, -3.0, 0.5, 1.0, 6.0}) {
    const double h = 1e-3;
    const double second = (value("airy", x + h) - 2 * value("airy", x) + value("airy", x - h)) / (h * h);
    EXPECT_NEAR(second, x * value("airy", x), 1e-4) << x;
  }
  expect_close(value("airy", 0), 0.3550280538878172);
  expect_close(value("airy", 2), 0.03492413042327438);
}

TEST(Special, polynomials_follow_their_recurrences) {
  expect_close(value("chebyshev_t", 0.5, 3), -1);
  expect_close(value("chebyshev_t", 0.3, 20), std::cos(20 * std::acos(0.3)));
  expect_close(value("chebyshev_u", 1, 7), 8);
  expect_close(value("chebyshev_v", 0.3, 2), 4 * 0.09 - 2 * 0.3 - 1);
  expect_close(value("chebyshev_w", 0.3, 2), 4 * 0.09 + 2 * 0.3 - 1);
  expect_close(value("shifted_chebyshev_t", 0.75, 3), -1);
  expect_close(value("hermite_h", 1, 3), -4);
  expect_close(value("hermite_he", 2, 3), 2);
  expect_close(value("laguerre", 1, 2), -0.5);
  expect_close(value("legendre", 0.5, 2), -0.125);
  EXPECT_EQ(value("legendre", 0.5, -1), 0);
}

TEST(Special, orders_are_data_and_bounded) {
  const Attrs attrs{{"function", std::string("legendre")}};
  EXPECT_TRUE(
      run_op(Op::special, {tensor_of<float>({1}, {0.5f}), tensor_of<float>({1}, {100.f})}, attrs).ok());
  EXPECT_FALSE(
      run_op(Op::special, {tensor_of<float>({1}, {0.5f}), tensor_of<float>({1}, {1e9f})}, attrs).ok());
}

TEST(Special, gcd_of_the_smallest_integer_does_not_overflow) {
  const auto out =
      run_op(Op::special, {tensor_of<int64_t>({3}, {INT64_MIN, 12, 0}), tensor_of<int64_t>({3}, {6, -18, 0})},
             {{"function", std::string("gcd")}});
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(values_of<int64_t>(out->at(0)), (std::vector<int64_t>{2, 6, 0}));
}

}  // namespace
}  // namespace sixfold
