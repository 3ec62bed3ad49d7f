// The gamma function's relatives, the error function's, and the parts of a float.
#include <cmath>
#include <limits>
#include <numbers>

#include "sixfold/ops/special/functions.h"

namespace sixfold::special {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kTiny = std::numeric_limits<double>::min();
constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
constexpr int kMaxTerms = 2000;

// B_2k: the numbers of Bernoulli, for the series of Euler and Maclaurin
constexpr double kBernoulli[] = {1.0 / 6,       -1.0 / 30,       1.0 / 42,       -1.0 / 30,
                                 5.0 / 66,      -691.0 / 2730,   7.0 / 6,        -3617.0 / 510,
                                 43867.0 / 798, -174611.0 / 330, 854513.0 / 138, -236364091.0 / 2730};

bool is_integer(double x) { return x == std::floor(x); }

// log(x) - 1/2x - sum B_2k / (2k x^2k) for x >= 10; smaller x by psi(x) = psi(x + 1) - 1/x, negative ones by
// reflection
double digamma(double x) {
  if (x == 0) return std::copysign(kInf, -x);
  if (x < 0 && is_integer(x)) return kNan;
  if (std::isinf(x)) return x > 0 ? kInf : kNan;
  if (x < 0) {
    const double part = x - std::floor(x);  // tan has period pi
    return digamma(1 - x) - kPi / std::tan(kPi * part);
  }
  double out = 0;
  for (; x < 10; ++x) out -= 1 / x;
  const double square = 1 / (x * x);
  double power = square, series = 0;
  for (int k = 0; k < 7; ++k, power *= square) series += kBernoulli[k] / (2 * (k + 1)) * power;
  return out + std::log(x) - 0.5 / x - series;
}

// sum over i >= 0 of (q + i)^-s, q > 0
double positive_zeta(double s, double q) {
  double sum = 0;
  for (; q < 12; ++q) sum += std::pow(q, -s);
  const double power = std::pow(q, -s);
  sum += power * q / (s - 1) + 0.5 * power;
  double term = s * power / q;  // s (s + 1) .. (s + 2k) q^(-s - 2k - 1)
  double factorial = 2;         // (2k + 2)!
  for (int k = 0; k < 12; ++k) {
    sum += kBernoulli[k] * term / factorial;
    term *= (s + 2 * k + 1) * (s + 2 * k + 2) / (q * q);
    factorial *= (2 * k + 3) * (2 * k + 4);
  }
  return sum;
}
double zeta(double s, double q) {
  if (s == 1) return kInf;
  if (!(s > 1) || std::isnan(q)) return kNan;
  if (q > 0) return std::isinf(q) ? 0.0 : positive_zeta(s, q);
  if (is_integer(q)) return kInf;
  if (!is_integer(s)) return kNan;  // a power of a negative number
  // The terms before zero, from the far end: (-1)^s times those of a sum over positive numbers.
  const double part = q - std::floor(q), count = -std::floor(q);
  const double sign = std::fmod(s, 2) == 0 ? 1 : -1;
  return positive_zeta(s, part) + sign * (positive_zeta(s, 1 - part) - positive_zeta(s, count + 1 - part));
}

// P(a, x) by its series, for x below a + 1
double lower_gamma_series(double a, double x) {
  double term = 1 / a, sum = term;
  for (int n = 1; n < kMaxTerms && term > sum * kEpsilon; ++n) sum += term *= x / (a + n);
  return sum * std::exp(a * std::log(x) - x - std::lgamma(a));
}
// Q(a, x) by its continued fraction (Lentz), for larger x
double upper_gamma_fraction(double a, double x) {
  double b = x + 1 - a, c = 1 / kTiny, d = 1 / (b == 0 ? kTiny : b), h = d;
  for (int n = 1; n < kMaxTerms; ++n) {
    const double an = -n * (n - a);
    b += 2;
    d = an * d + b;
    if (std::fabs(d) < kTiny) d = kTiny;
    c = b + an / c;
    if (std::fabs(c) < kTiny) c = kTiny;
    d = 1 / d;
    h *= d * c;
    if (std::fabs(d * c - 1) < kEpsilon) break;
  }
  return h * std::exp(a * std::log(x) - x - std::lgamma(a));
}
// For large a both converge slowly near x = a; there the integrand is summed instead: Simpson over t = x ..
// on a grid of the width of the peak, sqrt(a).
double upper_gamma_integral(double a, double x) {
  const double width = std::sqrt(a), log_gamma = std::lgamma(a);
  const double end = std::max(x, a) + 12 * width;
  const int steps = 4000;
  const double h = (end - x) / steps;
  double sum = 0;
  for (int i = 0; i <= steps; ++i) {
    const double t = x + h * i;
    const double value = std::exp((a - 1) * std::log(t) - t - log_gamma);
    sum += value * (i == 0 || i == steps ? 1 : i % 2 ? 4 : 2);
  }
  return std::min(1.0, sum * h / 3);
}

double igamma_edge(double a, double x, bool upper, bool& edge) {
  edge = true;
  const double none = upper ? 1 : 0, all = upper ? 0 : 1;
  if (std::isnan(a) || std::isnan(x) || x < 0 || a < 0) return kNan;
  if (a == 0) return x > 0 ? all : kNan;
  if (x == 0) return none;
  if (std::isinf(a)) return std::isinf(x) ? kNan : none;
  if (std::isinf(x)) return all;
  edge = false;
  return 0;
}
double igamma_of(double a, double x, bool upper) {
  bool edge = false;
  const double at_edge = igamma_edge(a, x, upper, edge);
  if (edge) return at_edge;
  if (a > 1e5 && std::fabs(x - a) < 12 * std::sqrt(a)) {
    const double q = upper_gamma_integral(a, x);
    return upper ? q : 1 - q;
  }
  if (x < a + 1) {
    const double p = lower_gamma_series(a, x);
    return upper ? 1 - p : p;
  }
  const double q = upper_gamma_fraction(a, x);
  return upper ? q : 1 - q;
}
double igamma(double a, double x) { return igamma_of(a, x, false); }
double igammac(double a, double x) { return igamma_of(a, x, true); }

// e^(x^2) erfc(x); from 10 on its asymptotic series
double erfcx(double x) {
  if (std::isnan(x)) return x;
  if (x < 10) return x < -27 ? kInf : std::exp(x * x) * std::erfc(x);
  const double step = -1 / (2 * x * x);
  double term = 1, sum = 1;
  for (int n = 1; n < 20; ++n) sum += term *= (2 * n - 1) * step;
  return sum * std::numbers::inv_sqrtpi / x;
}
double log_ndtr(double x) {
  const double t = x * std::numbers::sqrt2 / 2;
  if (x < -1) return std::log(erfcx(-t) / 2) - t * t;
  return std::log1p(-std::erfc(t) / 2);
}

double mantissa(double x) {
  int exponent = 0;
  return std::frexp(x, &exponent);
}
double exponent(double x) {
  int out = 0;
  if (std::isfinite(x)) std::frexp(x, &out);
  return out;
}

constexpr Function kFunctions[] = {
    {"digamma", 1, [](double x, double) { return digamma(x); }},
    {"erfcx", 1, [](double x, double) { return erfcx(x); }},
    {"log_ndtr", 1, [](double x, double) { return log_ndtr(x); }},
    {"cbrt", 1, [](double x, double) { return std::cbrt(x); }},
    {"mantissa", 1, [](double x, double) { return mantissa(x); }},
    {"exponent", 1, [](double x, double) { return exponent(x); }},
    {"zeta", 2, zeta},
    {"igamma", 2, igamma},
    {"igammac", 2, igammac},
};

}  // namespace

std::span<const Function> gamma_functions() { return kFunctions; }

const Function* find(std::string_view name) {
  for (const auto part : {gamma_functions(), bessel_functions(), polynomial_functions()})
    for (const Function& function : part)
      if (name == function.name) return &function;
  return nullptr;
}

}  // namespace sixfold::special
