// Quotients of fixed point: the denominator's mantissa of 15 bits goes through one of four parabolas to a
// reciprocal of 14 bits, which the numerator is multiplied by. Their coefficients give the library's
// reciprocals for all mantissas.
#pragma once

#include <bit>
#include <cmath>

#include "sixfold/emulator/elements.h"

namespace sixfold::emulator {

// 2^29 / (2^14 + w), about, for w of 14 bits.
inline int64_t reciprocal_of(int64_t w) {
  struct Parabola {
    int64_t square, slope, half;
    int64_t twice_constant;
  };
  constexpr Parabola kParts[4] = {{23588, -16043, 0, 32769},
                                  {13110, -13659, 0, 32232},
                                  {7890, -11177, 1 << 14, 31054},
                                  {5060, -9111, 0, 29548}};
  const Parabola& p = kParts[w >> 12];
  const int64_t slope = ((p.square * w + p.half) >> 15) + p.slope;
  return (slope * w + (p.twice_constant << 13)) >> 14;
}

struct Quotient {
  Codec a, b, y;
  double factor;  // steps of the output for a quotient of stored numbers

  Quotient(const Codec& a_, const Codec& b_, const Codec& y_)
      : a(a_), b(b_), y(y_), factor(a_.scale / b_.scale / y_.scale) {}

  // Of stored numbers.
  int64_t operator()(int64_t p, int64_t q) const {
    const int64_t over = p + a.offset, under = q + b.offset;
    const auto size = static_cast<uint64_t>(std::abs(under));
    if (size == 0)
      return over > 0   ? y.limits.max
             : over < 0 ? y.limits.min
                        : std::clamp(-y.offset, y.limits.min, y.limits.max);
    const int up = 16 - static_cast<int>(std::bit_width(size));
    const auto mantissa = static_cast<int64_t>(up >= 0 ? size << up : size >> -up) >> 1;
    const auto product = static_cast<double>(over * reciprocal_of(mantissa - (1 << 14)));
    const double steps = std::ldexp(under < 0 ? -product : product, up - 29) * factor;
    const double result = std::floor(steps + 0.5) - static_cast<double>(y.offset);
    return static_cast<int64_t>(
        std::clamp(result, static_cast<double>(y.limits.min), static_cast<double>(y.limits.max)));
  }
};

}  // namespace sixfold::emulator
