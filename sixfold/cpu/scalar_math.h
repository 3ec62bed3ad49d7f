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

// T is float or double; ops that are not float -> float give x.
template <typename T>
T apply_unary(Op op, T x, const UnaryParams& p) {
  static_assert(std::is_floating_point_v<T>);
  const T a = static_cast<T>(p.a), b = static_cast<T>(p.b);
  switch (op) {
    case Op::abs:
      return std::abs(x);
    case Op::neg:
      return -x;
    case Op::exp:
      return std::exp(x);
    case Op::exp2:
      return std::exp2(x);
    case Op::expm1:
      return std::expm1(x);
    case Op::log:
      return std::log(x);
    case Op::log1p:
      return std::log1p(x);
    case Op::log2:
      return std::log2(x);
    case Op::log10:
      return std::log10(x);
    case Op::sqrt:
      return std::sqrt(x);
    case Op::rsqrt:
      return T(1) / std::sqrt(x);
    case Op::reciprocal:
      return T(1) / x;
    case Op::sin:
      return std::sin(x);
    case Op::cos:
      return std::cos(x);
    case Op::tan:
      return std::tan(x);
    case Op::asin:
      return std::asin(x);
    case Op::acos:
      return std::acos(x);
    case Op::atan:
      return std::atan(x);
    case Op::sinh:
      return std::sinh(x);
    case Op::cosh:
      return std::cosh(x);
    case Op::asinh:
      return std::asinh(x);
    case Op::acosh:
      return std::acosh(x);
    case Op::atanh:
      return std::atanh(x);
    case Op::tanh:
      return std::tanh(x);
    case Op::sigmoid:
      return sigmoid(x);
    case Op::erf:
      return std::erf(x);
    case Op::erfinv:
      return static_cast<T>(erf_inverse(x));
    case Op::lgamma: {  // std::lgamma writes the global signgam: a race between tasks
      int sign;
      return static_cast<T>(lgamma_r(x, &sign));
    }
    case Op::ceil:
      return std::ceil(x);
    case Op::floor:
      return std::floor(x);
    case Op::round:
      return std::nearbyint(x);
    case Op::trunc:
      return std::trunc(x);
    case Op::sign:
      return static_cast<T>((x > 0) - (x < 0));
    case Op::relu:
      return x < 0 ? T(0) : x;
    case Op::silu:
      return x / (T(1) + std::exp(-x));
    case Op::mish:
      return x * std::tanh(std::log1p(std::exp(x)));
    case Op::hardswish:
      return x * std::fmin(std::fmax(x + T(3), T(0)), T(6)) / T(6);
    case Op::hardsigmoid:
      return std::isnan(x) ? x : std::fmin(std::fmax(x + T(3), T(0)), T(6)) / T(6);
    case Op::gelu:
      if (p.a != 0) {
        const T inner =
            static_cast<T>(std::numbers::sqrt2 * std::numbers::inv_sqrtpi) * (x + T(0.044715) * x * x * x);
        return T(0.5) * x * (T(1) + std::tanh(inner));
      }
      return T(0.5) * x * (T(1) + std::erf(x * static_cast<T>(std::numbers::sqrt2 / 2)));
    case Op::elu:
      return x <= 0 ? std::expm1(x * static_cast<T>(p.c)) * (a * b) : x * b;
    case Op::leaky_relu:
      return x > 0 ? x : x * a;
    case Op::softplus:
      return x * a > b ? x : std::log1p(std::exp(x * a)) / a;
    case Op::clamp:
      return x < a ? (a > b ? b : a) : x > b ? b : x;
    default:
      return x;
  }
}

}  // namespace sixfold::cpu
