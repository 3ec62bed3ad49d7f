// The 32-bit float in which the device's vector unit computes.
//
// Its significand is a whole number of 25 bits with a sign, in units of 2^-23, whose last bit is always 1 and
// is not stored: what a result lacks is taken to lie in the middle. A multiple of 4 has no such number, so 1
// becomes 1 + 2^-23, and a multiple of 2 is an odd number of units twice as large.
#pragma once

#include <cmath>
#include <cstdint>

namespace sixfold::cpu {

struct QFloat {
  int32_t significand = 0;  // odd, less than 2^24 in magnitude; 0: nothing
  int32_t exponent = 0;     // significand * 2^(exponent - 23)

  // The nearest of units * 2^(exponent - 23): of parts beyond the units, 1.5 still belongs to 1 and 2.5 to 2.
  static QFloat rounded(double units, int32_t exponent) {
    const bool large = std::abs(units) >= 16777216.0 && units != -16777216.0;
    if (large) {
      units /= 2;
      ++exponent;
    }
    const double fours = std::floor(units / 4) * 4, rest = units - fours;
    if (!large && rest > 1.5 && rest <= 2.5) return {static_cast<int32_t>((fours + 2) / 2), exponent + 1};
    return {static_cast<int32_t>(fours) + (rest <= (large ? 2.0 : 1.5) ? 1 : 3), exponent};
  }
  static QFloat of(float x) {
    if (x == 0 || !std::isfinite(x)) return {};  // 1 / scale, where a client's scale is nearly nothing
    int exponent = 0;
    const double mantissa = std::frexp(static_cast<double>(x), &exponent);
    return rounded(std::ldexp(mantissa, 24), exponent - 1);
  }
};

}  // namespace sixfold::cpu
