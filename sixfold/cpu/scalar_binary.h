// The binary ops on two values, as torch computes them: NaN wins minima, floor division is exact, integers
// wrap.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "sixfold/base/attr.h"
#include "sixfold/ops/op.h"

namespace sixfold::cpu {

// An op and, for div, its rounding, as one word.
enum class Arithmetic : uint8_t {
  none,
  add,
  sub,
  mul,
  div,
  div_floor,
  div_trunc,
  fmod,
  remainder,
  pow,
  minimum,
  maximum,
  atan2,
  prelu,
  bitwise_and,
  bitwise_or,
  bitwise_xor,
  shift_left,
  shift_right,
};
Arithmetic arithmetic_of(Op op, const Attrs& attrs);

template <typename T>
T remainder_floor(T a, T b) {  // sign of the divisor
  const T mod = std::fmod(a, b);
  return mod != 0 && (b < 0) != (mod < 0) ? mod + b : mod;
}

// a / b rounded down once: the quotient itself may round up to the next integer.
template <typename T>
T divide_floor(T a, T b) {
  if (b == 0) return a / b;
  const T mod = std::fmod(a, b);
  T quotient = (a - mod) / b;
  if (mod != 0 && (b < 0) != (mod < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(T(0), a / b);
  T floored = std::floor(quotient);
  if (quotient - floored > T(0.5)) floored += 1;
  return floored;
}

template <Arithmetic op, typename T>
requires std::is_floating_point_v<T> T apply_binary(T a, T b) {
  if constexpr (op == Arithmetic::add)
    return a + b;
  else if constexpr (op == Arithmetic::sub)
    return a - b;
  else if constexpr (op == Arithmetic::mul)
    return a * b;
  else if constexpr (op == Arithmetic::div)
    return a / b;
  else if constexpr (op == Arithmetic::div_floor)
    return divide_floor(a, b);
  else if constexpr (op == Arithmetic::div_trunc)
    return std::trunc(a / b);
  else if constexpr (op == Arithmetic::fmod)
    return std::fmod(a, b);
  else if constexpr (op == Arithmetic::remainder)
    return remainder_floor(a, b);
  else if constexpr (op == Arithmetic::pow)
    return std::pow(a, b);
  else if constexpr (op == Arithmetic::minimum)
    return a < b || a != a ? a : b;
  else if constexpr (op == Arithmetic::maximum)
    return a > b || a != a ? a : b;
  else if constexpr (op == Arithmetic::atan2)
    return std::atan2(a, b);
  else if constexpr (op == Arithmetic::prelu)
    return a > 0 ? a : a * b;
  else
    return a;
}

// base^exponent in T's modular arithmetic; a negative exponent gives 0 except for bases 1 and -1.
template <typename T>
T integer_power(T base, T exponent) {
  if constexpr (std::is_signed_v<T>) {
    if (exponent < 0) {
      if (base == 1) return 1;
      if (base == -1) return exponent % 2 == 0 ? 1 : -1;
      return 0;
    }
  }
  uint64_t result = 1, square = static_cast<uint64_t>(base);
  for (auto e = static_cast<uint64_t>(exponent); e; e >>= 1, square *= square)
    if (e & 1) result *= square;
  return static_cast<T>(result);
}

// Integers and bool. A zero divisor gives 0: kernels look for it before and report it.
template <Arithmetic op, typename T>
requires std::is_integral_v<T> T apply_binary(T a, T b) {
  const auto ua = static_cast<uint64_t>(a),
             ub = static_cast<uint64_t>(b);  // wraps, which int64_t would leave open
  constexpr int kBits = std::numeric_limits<T>::digits + std::is_signed_v<T>;
  if constexpr (op == Arithmetic::add)
    return static_cast<T>(ua + ub);
  else if constexpr (op == Arithmetic::sub)
    return static_cast<T>(ua - ub);
  else if constexpr (op == Arithmetic::mul)
    return static_cast<T>(ua * ub);
  else if constexpr (op == Arithmetic::minimum)
    return a < b ? a : b;
  else if constexpr (op == Arithmetic::maximum)
    return a > b ? a : b;
  else if constexpr (op == Arithmetic::bitwise_and)
    return static_cast<T>(a & b);
  else if constexpr (op == Arithmetic::bitwise_or)
    return static_cast<T>(a | b);
  else if constexpr (op == Arithmetic::bitwise_xor)
    return static_cast<T>(a ^ b);
  else if constexpr (std::is_same_v<T, bool>)
    return a;
  else if constexpr (op == Arithmetic::pow)
    return integer_power(a, b);
  else if constexpr (op == Arithmetic::shift_left)
    return ub < kBits ? static_cast<T>(ua << ub) : T(0);
  else if constexpr (op == Arithmetic::shift_right)
    return static_cast<T>(a >> (ub < kBits ? ub : kBits - 1)) &
           (std::is_signed_v<T> || ub < kBits ? T(-1) : T(0));
  else {
    if (b == 0) return 0;
    if (std::is_signed_v<T> && b == static_cast<T>(-1))  // the smallest a would trap
      return op == Arithmetic::fmod || op == Arithmetic::remainder ? T(0) : static_cast<T>(0 - ua);
    const T quotient = static_cast<T>(a / b), rest = static_cast<T>(a % b);
    const bool floors = rest != 0 && (rest < 0) != (b < 0);  // truncation went up
    if constexpr (op == Arithmetic::fmod)
      return rest;
    else if constexpr (op == Arithmetic::remainder)
      return floors ? static_cast<T>(rest + b) : rest;
    else if constexpr (op == Arithmetic::div_floor)
      return floors ? static_cast<T>(quotient - 1) : quotient;
    else
      return quotient;
  }
}

}  // namespace sixfold::cpu
