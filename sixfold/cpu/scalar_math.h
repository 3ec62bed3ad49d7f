// The unary ops on one value: what the SIMD code is tested against, and the code for f64 and rare functions.
#pragma once

#include <cmath>
#include <limits>
#include <numbers>
#include <type_traits>

#include "sixfold/base/attr.h"
#include "sixfold/base/result.h"
#include "sixfold/ops/op.h"

namespace sixfold::cpu {

// Attributes of a unary op in the order of ops/aten.def; gelu has a != 0 for tanh, clamp has infinities for
// none.
struct UnaryParams {
  double a = 0, b = 0, c = 0;
};
UnaryParams unary_params(Op op, const Attrs& attrs);

// The inverse of erf in double, to about 1e-15.
double erf_inverse(double y);

template <typename T>
T sigmoid(T x) {
  return T(1) / (T(1) + std::exp(-x));
}

// std::lgamma writes the global signgam: a race between tasks.
template <typename T>
T log_gamma(T x) {
  int sign;
  return static_cast<T>(lgamma_r(x, &sign));
}

template <typename T>
T gelu(T x, bool with_tanh) {
  if (!with_tanh) return T(0.5) * x * (T(1) + std::erf(x * static_cast<T>(std::numbers::sqrt2 / 2)));
  const T inner =
      static_cast<T>(std::numbers::sqrt2 * std::numbers::inv_sqrtpi) * (x + T(0.044715) * x * x * x);
  return T(0.5) * x * (T(1) + std::tanh(inner));
}

// T is float or double; ops that are not float -> float give x.
template <typename T>
T apply_unary(Op op, T x, const UnaryParams& p) {
  static_assert(std::is_floating_point_v<T>);
  const T a = static_cast<T>(p.a), b = static_cast<T>(p.b);
  // An op that this build does not keep is no case: its code would be there for nothing.
#define SF_OP(id, expression)                         \
  case Op::id:                                        \
    if constexpr (keeps(Op::id)) return (expression); \
    break;
  switch (op) {
    SF_OP(abs, std::abs(x))
    SF_OP(neg, -x)
    SF_OP(exp, std::exp(x))
    SF_OP(exp2, std::exp2(x))
    SF_OP(expm1, std::expm1(x))
    SF_OP(log, std::log(x))
    SF_OP(log1p, std::log1p(x))
    SF_OP(log2, std::log2(x))
    SF_OP(log10, std::log10(x))
    SF_OP(sqrt, std::sqrt(x))
    SF_OP(rsqrt, T(1) / std::sqrt(x))
    SF_OP(reciprocal, T(1) / x)
    SF_OP(sin, std::sin(x))
    SF_OP(cos, std::cos(x))
    SF_OP(tan, std::tan(x))
    SF_OP(asin, std::asin(x))
    SF_OP(acos, std::acos(x))
    SF_OP(atan, std::atan(x))
    SF_OP(sinh, std::sinh(x))
    SF_OP(cosh, std::cosh(x))
    SF_OP(asinh, std::asinh(x))
    SF_OP(acosh, std::acosh(x))
    SF_OP(atanh, std::atanh(x))
    SF_OP(tanh, std::tanh(x))
    SF_OP(sigmoid, sigmoid(x))
    SF_OP(erf, std::erf(x))
    SF_OP(erfinv, static_cast<T>(erf_inverse(x)))
    SF_OP(lgamma, log_gamma(x))
    SF_OP(ceil, std::ceil(x))
    SF_OP(floor, std::floor(x))
    SF_OP(round, std::nearbyint(x))
    SF_OP(trunc, std::trunc(x))
    SF_OP(sign, static_cast<T>((x > 0) - (x < 0)))
    SF_OP(relu, x < 0 ? T(0) : x)
    SF_OP(silu, x / (T(1) + std::exp(-x)))
    SF_OP(mish, x * std::tanh(std::log1p(std::exp(x))))
    SF_OP(hardswish, x * std::fmin(std::fmax(x + T(3), T(0)), T(6)) / T(6))
    SF_OP(hardsigmoid, std::isnan(x) ? x : std::fmin(std::fmax(x + T(3), T(0)), T(6)) / T(6))
    SF_OP(gelu, gelu(x, p.a != 0))
    SF_OP(elu, x <= 0 ? std::expm1(x * static_cast<T>(p.c)) * (a * b) : x * b)
    SF_OP(leaky_relu, x > 0 ? x : x * a)
    SF_OP(softplus, x * a > b ? x : std::log1p(std::exp(x * a)) / a)
    SF_OP(clamp, x < a ? (a > b ? b : a) : x > b ? b : x)
    default:
      break;
  }
#undef SF_OP
  return x;
}

}  // namespace sixfold::cpu
