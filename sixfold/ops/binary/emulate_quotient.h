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

// A positive factor as a fraction of 15 bits and a power of two.
struct Fraction {
  int64_t numerator = 0;
  int exponent = 0;  // factor = numerator * 2^(exponent - 15)

  static Fraction of(float factor) {  // made-up scales may overflow
    factor = factor > 1e-30f ? std::min(factor, 1e30f) : 1e-30f;
    Fraction f;
    f.numerator = std::llround(std::ldexp(std::frexp(static_cast<double>(factor), &f.exponent), 15));
    return f;
  }
  int64_t times(int64_t x) const { return (x * numerator + (1 << 14)) >> 15; }
};

// Quotients of stored numbers. The numerator is shifted to 15 bits, as the denominator is.
//
// 8 bits: the numerator has the denominator's sign, and -2^k becomes -2^15. It is multiplied by the factor
// and then by the reciprocal, each product rounded to 15 bits, halves up. For a floor the reciprocal comes
// first, and what was cut to a whole number is multiplied by the output's steps, rounded in its 15 bits.
// 16 bits: of magnitudes, whose numerator and denominator are cut to 15 bits; only the product with the
// factor is rounded before the result is, and the sign comes last.
struct Quotient {
  Codec a, b, y;
  bool wide;
  Fraction steps, ratio, inverse;  // steps of the output, or whole numbers, of a quotient; steps of a one

  Quotient(const Codec& a_, const Codec& b_, const Codec& y_)
      : a(a_), b(b_), y(y_), wide(qnn::size_of(y_.dtype) == 2) {
    const auto sa = static_cast<float>(a.scale), sb = static_cast<float>(b.scale),
               sy = static_cast<float>(y.scale);
    steps = Fraction::of(sa / sb / sy);
    ratio = Fraction::of(sa / sb);
    inverse = Fraction::of(1 / sy);
  }

  // Rounded to the nearest step.
  int64_t operator()(int64_t p, int64_t q) const {
    const int64_t over = p + a.offset, under = q + b.offset;
    if (under == 0) return over < 0 ? y.limits.min : y.limits.max;
    const Denominator d(under);
    if (wide) {
      const int up = 15 - width(std::abs(over));
      const int64_t product = steps.times(shifted(std::abs(over), up)) * d.reciprocal;
      const int64_t size = halves_up(product, up + 28 - d.up - steps.exponent);
      return in_range((over < 0) != (under < 0) ? -size : size);
    }
    const int64_t n = under < 0 ? -over : over;
    const int up = 15 - width(n < 0 ? ~n : n);
    const int64_t product = (steps.times(shifted(n, up)) * d.reciprocal + (1 << 14)) >> 15;
    return in_range(halves_up(product, up + 13 - d.up - steps.exponent));
  }
  // Of 8 bits by the one number of a tensor that is no constant: the real one, to the nearest, ties to even.
  int64_t nearest(int64_t p, int64_t q) const {
    const int64_t over = p + a.offset, under = q + b.offset;
    if (under == 0) return over < 0 ? y.limits.min : y.limits.max;
    const double real = static_cast<double>(over) * a.scale / (static_cast<double>(under) * b.scale);
    const double code = real / y.scale - static_cast<double>(y.offset);
    return static_cast<int64_t>(std::clamp(std::nearbyint(code), static_cast<double>(y.limits.min),
                                           static_cast<double>(y.limits.max)));
  }
  // Of 8 bits: cut to a whole number, downwards, before it is rounded.
  int64_t whole(int64_t p, int64_t q) const {
    const int64_t over = p + a.offset, under = q + b.offset;
    if (under == 0) return over < 0 ? y.limits.min : y.limits.max;
    const Denominator d(under);
    const int64_t n = under < 0 ? -over : over;
    const int up = 15 - width(n < 0 ? ~n : n);
    const int places = up + 13 - d.up - ratio.exponent;
    int64_t quotient = ratio.times((shifted(n, up) * d.reciprocal + (1 << 14)) >> 15);
    if (places > 0) quotient &= -(int64_t{1} << std::min(places, 40));
    return in_range(halves_up(inverse.times(quotient), places - inverse.exponent));
  }

 private:
  struct Denominator {
    int up;
    int64_t reciprocal;
    explicit Denominator(int64_t under) : up(15 - width(std::abs(under))) {
      reciprocal = reciprocal_of(shifted(std::abs(under), up) - (1 << 14));
    }
  };
  static int width(int64_t size) { return static_cast<int>(std::bit_width(static_cast<uint64_t>(size))); }
  static int64_t shifted(int64_t x, int up) { return up >= 0 ? x * (int64_t{1} << up) : x >> -up; }
  static int64_t halves_up(int64_t x, int places) {                     // x / 2^places
    if (places <= 0) return x * (int64_t{1} << std::min(-places, 24));  // far beyond any range
    places = std::min(places, 40);
    return (x + (int64_t{1} << (places - 1))) >> places;
  }
  int64_t in_range(int64_t steps) const { return std::clamp(steps - y.offset, y.limits.min, y.limits.max); }
};

}  // namespace sixfold::emulator
