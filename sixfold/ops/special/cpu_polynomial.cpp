// Orthogonal polynomials p_n(x), by their recurrences p_k+1 from p_k and p_k-1. Of a negative order: 0, as
// torch.
#include <cmath>
#include <limits>

#include "sixfold/ops/special/functions.h"

namespace sixfold::special {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// step(k, p_k, p_k-1) is p_k+1.
template <typename Step>
double recurrence(double n, double first, Step step) {
  if (std::isnan(n)) return kNan;
  const double order = std::trunc(n);
  if (order < 0) return 0;
  if (order == 0) return 1;
  double before = 1, now = first;
  for (double k = 1; k < order && std::isfinite(now); ++k) {
    const double next = step(k, now, before);
    before = now;
    now = next;
  }
  return now;
}

// All four kinds of Chebyshev's share their recurrence. Between -1 and 1 they are quotients of sines and
// cosines, which stay exact for high orders.
double chebyshev(double x, double n, double first) {
  return recurrence(n, first, [x](double, double now, double before) { return 2 * x * now - before; });
}
bool by_angle(double x, double n) { return n > 8 && std::fabs(x) < 1; }
double chebyshev_t(double x, double n) {
  return by_angle(x, n) ? std::cos(std::trunc(n) * std::acos(x)) : chebyshev(x, n, x);
}
double chebyshev_u(double x, double n) {
  if (!by_angle(x, n)) return chebyshev(x, n, 2 * x);
  const double angle = std::acos(x);
  return std::sin((std::trunc(n) + 1) * angle) / std::sin(angle);
}
double chebyshev_v(double x, double n) {
  if (!by_angle(x, n)) return chebyshev(x, n, 2 * x - 1);
  const double angle = std::acos(x);
  return std::cos((std::trunc(n) + 0.5) * angle) / std::cos(angle / 2);
}
double chebyshev_w(double x, double n) {
  if (!by_angle(x, n)) return chebyshev(x, n, 2 * x + 1);
  const double angle = std::acos(x);
  return std::sin((std::trunc(n) + 0.5) * angle) / std::sin(angle / 2);
}
template <double (*f)(double, double)>
double shifted(double x, double n) {
  return f(2 * x - 1, n);
}

double hermite_h(double x, double n) {
  return recurrence(n, 2 * x,
                    [x](double k, double now, double before) { return 2 * (x * now - k * before); });
}
double hermite_he(double x, double n) {
  return recurrence(n, x, [x](double k, double now, double before) { return x * now - k * before; });
}
double laguerre(double x, double n) {
  return recurrence(n, 1 - x, [x](double k, double now, double before) {
    return ((2 * k + 1 - x) * now - k * before) / (k + 1);
  });
}
double legendre(double x, double n) {
  return recurrence(n, x, [x](double k, double now, double before) {
    return ((2 * k + 1) * x * now - k * before) / (k + 1);
  });
}

constexpr Function kFunctions[] = {
    {"chebyshev_t", 2, chebyshev_t, true},
    {"chebyshev_u", 2, chebyshev_u, true},
    {"chebyshev_v", 2, chebyshev_v, true},
    {"chebyshev_w", 2, chebyshev_w, true},
    {"shifted_chebyshev_t", 2, shifted<chebyshev_t>, true},
    {"shifted_chebyshev_u", 2, shifted<chebyshev_u>, true},
    {"shifted_chebyshev_v", 2, shifted<chebyshev_v>, true},
    {"shifted_chebyshev_w", 2, shifted<chebyshev_w>, true},
    {"hermite_h", 2, hermite_h, true},
    {"hermite_he", 2, hermite_he, true},
    {"laguerre", 2, laguerre, true},
    {"legendre", 2, legendre, true},
};

}  // namespace

std::span<const Function> polynomial_functions() { return kFunctions; }

}  // namespace sixfold::special
