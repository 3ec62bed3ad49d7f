// Bessel functions and Airy's. Of infinity: NaN, as torch, but where the scaled functions have their limit.
#include <cmath>
#include <limits>
#include <numbers>

#include "sixfold/ops/special/functions.h"

namespace sixfold::special {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// e^-|x| I_order(x), order 0 or 1: the power series, whose terms are all positive, up to 20; the asymptotic
// one beyond
double scaled_i(int order, double x) {
  const double z = std::fabs(x), sign = order == 1 && x < 0 ? -1 : 1;
  if (std::isnan(x)) return x;
  if (z <= 20) {
    const double quarter = z * z / 4;
    double term = order == 0 ? 1 : z / 2, sum = term;
    for (int k = 1; k < 100 && term > sum * 1e-17; ++k) sum += term *= quarter / (k * (k + order));
    return sign * sum * std::exp(-z);
  }
  const double mu = 4.0 * order * order;
  double term = 1, sum = 1;
  for (int k = 1; k < 30; ++k) {
    const double odd = 2 * k - 1;
    const double next = term * -(mu - odd * odd) / (k * 8 * z);
    if (std::fabs(next) > std::fabs(term)) break;
    sum += term = next;
  }
  return sign * sum / std::sqrt(2 * kPi * z);
}
double unscaled_i(int order, double x) {
  if (std::isinf(x)) return kNan;
  const double scaled = scaled_i(order, x);
  return scaled == 0 ? scaled : scaled * std::exp(std::fabs(x) / 2) * std::exp(std::fabs(x) / 2);
}

// e^x K_order(x) = integral over t > 0 of e^(-x (cosh t - 1)) cosh(order t). The trapezoidal rule converges
// at double precision with steps of 1/8: the integrand and all its derivatives vanish at the far end, and it
// is even.
double scaled_k(double order, double x) {
  if (std::isnan(x) || x < 0) return kNan;
  if (x == 0) return kInf;
  if (std::isinf(x)) return 0;
  double h = 0.125;
  while (x * h * h > 0.5) h /= 2;  // a large x makes the peak narrow
  double sum = 0.5;
  for (int i = 1; i < 100000; ++i) {
    const double t = h * i, half = std::sinh(t / 2);
    const double term = std::exp(-2 * x * half * half + order * t) * (0.5 + 0.5 * std::exp(-2 * order * t));
    sum += term;
    if (term < sum * 1e-18) break;
  }
  return sum * h;
}
double unscaled_k(double order, double x) {
  return x > 0 && !std::isinf(x) ? scaled_k(order, x) * std::exp(-x) : scaled_k(order, x);
}

double spherical_j0(double x) {
  if (std::isinf(x)) return 0;
  if (std::fabs(x) < 0.1) {
    const double s = x * x;
    return 1 - s / 6 * (1 - s / 20 * (1 - s / 42 * (1 - s / 72)));
  }
  return std::sin(x) / x;
}

// Ai: K_1/3 for positive x; between -8 and 0 the power series, below the asymptotic one
double airy(double x) {
  if (std::isnan(x)) return x;
  if (std::isinf(x)) return kNan;
  const double z = std::fabs(x), zeta = 2.0 / 3 * z * std::sqrt(z);
  if (x > 1) return std::sqrt(z / 3) / kPi * unscaled_k(1.0 / 3, zeta);
  if (x > -8) {
    const long double at_zero = 0.355028053887817239260L, slope = -0.258819403792806798405L;
    const long double cube = static_cast<long double>(x) * x * x;
    long double f = 1, g = x, f_term = 1, g_term = x;
    for (int k = 1; k < 80; ++k) {
      f += f_term *= cube / ((3 * k - 1) * (3 * k));
      g += g_term *= cube / ((3 * k) * (3 * k + 1));
    }
    return static_cast<double>(at_zero * f + slope * g);
  }
  // sum of (-1)^k u_2k / zeta^2k and of (-1)^k u_2k+1 / zeta^(2k+1), u_k by its recurrence
  double u = 1, even = 1, odd = 0, power = 1;
  for (int k = 1; k < 30; ++k) {
    u *= (6.0 * k - 5) * (6.0 * k - 3) * (6.0 * k - 1) / (216.0 * k * (2 * k - 1));
    power /= zeta;
    const double term = u * power;
    if (term < 1e-18) break;
    const double sign = (k / 2) % 2 == 0 ? 1 : -1;
    (k % 2 == 0 ? even : odd) += sign * term;
  }
  const double angle = zeta - kPi / 4;
  return (std::cos(angle) * even + std::sin(angle) * odd) / (std::sqrt(kPi) * std::pow(z, 0.25));
}

double bessel_j(double (*j)(double), double x) { return std::isinf(x) ? kNan : j(x); }
double bessel_y(double (*y)(double), double x) {
  if (x == 0) return -kInf;
  return x < 0 || std::isinf(x) ? kNan : y(x);
}

constexpr Function kFunctions[] = {
    {"i0", 1, [](double x, double) { return unscaled_i(0, x); }},
    {"i1", 1, [](double x, double) { return unscaled_i(1, x); }},
    {"i0e", 1, [](double x, double) { return scaled_i(0, x); }},
    {"i1e", 1, [](double x, double) { return scaled_i(1, x); }},
    {"bessel_j0", 1, [](double x, double) { return bessel_j(::j0, x); }},
    {"bessel_j1", 1, [](double x, double) { return bessel_j(::j1, x); }},
    {"bessel_y0", 1, [](double x, double) { return bessel_y(::y0, x); }},
    {"bessel_y1", 1, [](double x, double) { return bessel_y(::y1, x); }},
    {"bessel_k0", 1, [](double x, double) { return unscaled_k(0, x); }},
    {"bessel_k1", 1, [](double x, double) { return unscaled_k(1, x); }},
    {"bessel_k0e", 1, [](double x, double) { return scaled_k(0, x); }},
    {"bessel_k1e", 1, [](double x, double) { return scaled_k(1, x); }},
    {"spherical_j0", 1, [](double x, double) { return spherical_j0(x); }},
    {"airy", 1, [](double x, double) { return airy(x); }},
};

}  // namespace

std::span<const Function> bessel_functions() { return kFunctions; }

}  // namespace sixfold::special
