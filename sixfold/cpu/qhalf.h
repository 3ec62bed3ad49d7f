// The 16-bit float in which the device's vector unit computes.
//
// As with its 32-bit float (cpu/qfloat.h) the last bit of a significand is always 1: it is an odd number
// below 2048 in units of 2^-10, so 1 becomes 1 + 2^-10, and 2 (mod 4) units are an odd number of units twice
// as large. Results below 2^-13 are not all the device's (a few units of 2^-24 away).
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace sixfold::cpu {

struct QHalf {
  int32_t significand = 0;  // a half's own may be even; 0: nothing
  int32_t exponent = 0;     // significand * 2^(exponent - 10)
  bool negative = false;    // the sign, of nothing too

  static QHalf of(float half) {  // as it is
    QHalf q{.negative = std::signbit(half)};
    if (half == 0) return q;
    const auto bits = std::bit_cast<uint32_t>(half);  // no half is a subnormal float
    const auto size = static_cast<int32_t>((bits >> 13 & 0x3ffu) | 0x400u);
    q.significand = q.negative ? -size : size;
    q.exponent = static_cast<int32_t>(bits >> 23 & 0xffu) - 127;
    return q;
  }
  float value() const {
    return significand == 0 ? std::copysign(0.0f, negative ? -1.0f : 1.0f)
                            : std::ldexp(static_cast<float>(significand), exponent - 10);
  }

  friend QHalf operator-(const QHalf& a, const QHalf& b) {  // of halves
    // Magnitudes of one sign are added without it.
    const bool outside = a.negative && !b.negative;
    QHalf minus = b;
    minus.significand = -b.significand;
    minus.negative = !b.negative;
    QHalf q = outside ? sum(-a.significand, a.exponent, b.significand, b.exponent)
                      : sum(a.significand, a.exponent, minus.significand, b.exponent);
    if (outside) q.significand = -q.significand;
    q.negative = q.significand == 0 ? a.negative && minus.negative : q.significand < 0;
    return q;
  }
  friend QHalf operator+(const QHalf& half, const QHalf& b) {
    QHalf q = sum(half.significand, half.exponent, b.significand, b.exponent);
    q.negative = q.significand == 0 ? half.significand == 0 && b.negative : q.significand < 0;
    return q;
  }
  friend QHalf operator*(const QHalf& a, const QHalf& b) {
    QHalf q;
    const int64_t product = int64_t{a.significand} * b.significand;
    if (product != 0) q = rounded(product * (kOne >> 10), a.exponent + b.exponent);
    q.negative = a.negative != b.negative;
    return q;
  }

 private:
  static constexpr int kPlaces = 44;  // of parts of a unit: those of any two halves and their products
  static constexpr int64_t kOne = int64_t{1} << kPlaces;

  // The nearest: of parts beyond the units, 1.5 still belongs to 1 and 2.5 to 2.
  static QHalf rounded(int64_t units, int32_t exponent) {
    int places = kPlaces;
    const bool large = (units >= 2048 * kOne || units < -2048 * kOne);
    if (large) {
      ++places;
      ++exponent;
    }
    const int64_t one = int64_t{1} << places, fours = units >> (places + 2), rest = units - fours * 4 * one;
    if (!large && 2 * rest > 3 * one && 2 * rest <= 5 * one)
      return {static_cast<int32_t>(2 * fours + 1), exponent + 1};
    const bool low = large ? rest <= 2 * one : 2 * rest <= 3 * one;
    return {static_cast<int32_t>(4 * fours + (low ? 1 : 3)), exponent};
  }
  // Units are those of the larger, whose significand begins with the highest bit.
  static QHalf sum(int32_t a, int32_t ea, int32_t b, int32_t eb) {
    const auto shift = [](int32_t& s, int32_t& e) {
      const int up = 11 - static_cast<int>(std::bit_width(static_cast<uint32_t>(std::abs(s))));
      s *= 1 << up;
      e -= up;
    };
    if (a != 0) shift(a, ea);
    if (b != 0) shift(b, eb);
    if (a == 0) ea = eb;
    if (b == 0) eb = ea;
    const int32_t e = std::max(ea, eb);
    const auto part = [&](int32_t s, int32_t own) {
      return e - own > kPlaces ? int64_t{s > 0} - int64_t{s < 0} : s * (kOne >> (e - own));
    };
    const int64_t units = part(a, ea) + part(b, eb);
    return units == 0 ? QHalf{} : rounded(units, e);
  }
};

}  // namespace sixfold::cpu
