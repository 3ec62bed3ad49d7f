// Rows of fixed-point elements: sums, tables, softmax, norms, and the way from and to reals. Loops that the
// compiler makes SIMD code of for several kinds of CPU. All give the same bits: integers, or doubles whose
// every operation is rounded by itself (the file is compiled without contraction to fused products).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sixfold::cpu {

// How elements of 8 or 16 bits are stored.
enum class Stored : uint8_t { u8, s8, u16, s16 };
inline constexpr bool is_wide(Stored s) { return s == Stored::u16 || s == Stored::s16; }
// f(a number of that type)
template <typename F>
void with_stored(Stored stored, const F& f) {
  switch (stored) {
    case Stored::u8:
      return f(uint8_t{});
    case Stored::s8:
      return f(int8_t{});
    case Stored::u16:
      return f(uint16_t{});
    case Stored::s16:
      return f(int16_t{});
  }
}

enum class PairOp : uint8_t { add, multiply, maximum, minimum };
// y = clamp(floor((x + half + constant) / 2^shift) + zero), where x is a * A + b * B of numbers without their
// zero points, the product a * b * A (of 8 bits), or the larger or smaller of a * A and b * B. A subtraction
// has a negative B.
struct FixedPair {
  PairOp op = PairOp::add;
  Stored stored = Stored::u8;
  int32_t scale_a = 0, scale_b = 0, shift = 1;  // 8 bits: at most 15 bits and a sign; 1 to 46
  int32_t offset_a = 0, offset_b = 0;           // to be added to stored numbers
  int32_t zero = 0, min = 0, max = 255;         // of the result, stored
  int64_t constant = 0, more_b = 0;             // zero points that are scaled; more_b: what b's has beyond
};
// step: 1, or 0 for one element that is repeated.
void fixed_pair(const FixedPair& pair, const void* a, int64_t step_a, const void* b, int64_t step_b, void* y,
                int64_t n);

// Products of 16 bits: x = (a + offset_a) * (b + offset_b) + moved has 32 bits; with t = x * scale / 2^31,
// rounded, halves up, y = clamp(floor((t + back) / 8) * 2^left + zero).
struct WideProduct {
  Stored stored = Stored::u16;
  int32_t offset_a = 0, offset_b = 0, moved = 0, scale = 0, back = 0, left = 0;
  int32_t low = INT32_MIN, high = INT32_MAX;  // t beyond them has the end of the grid
  int32_t zero = 0, min = 0, max = 65535;
};
void wide_product(const WideProduct& product, const void* a, int64_t step_a, const void* b, int64_t step_b,
                  void* y, int64_t n);

// y[i] = table[x[i]]
void lookup_bytes(const uint8_t* table, const uint8_t* x, uint8_t* y, int64_t n);
// y[i] = clamp(x[i])
void clamp_row(Stored stored, const void* x, void* y, int64_t n, int32_t min, int32_t max);

struct RealCode {  // real = (q + offset) * scale
  double scale = 1;
  int32_t offset = 0, min = 0, max = 255;
};
// y = x < 0 ? x * slope : x, of the reals, to the nearest, ties away from zero. step: 1, or 0 for one element
// that is repeated.
struct SlopeRow {
  Stored stored = Stored::u16, slope = Stored::u16;  // of x and y; of the slopes
  RealCode from, by, to;
};
void slope_row(const SlopeRow& row, const void* x, int64_t step_x, const void* slope, int64_t step_slope,
               void* y, int64_t n);

// The same of 16 bits, without a sign, as the device has it: y = ((x + offset) * m + zero * 2^shift) /
// 2^shift, rounded, halves up, where m is `above`, or below[i] where x + offset is negative. The sum is one
// of 32 bits, which what is beyond it wraps around to. step: of `below`, 1 or 0.
struct KinkRow {
  int32_t offset = 0, above = 0, shift = 1, zero = 0;
};
void kink_row(const KinkRow& row, const uint16_t* x, const int32_t* below, int64_t step, uint16_t* y,
              int64_t n);

// Slopes over sums, whole numbers in doubles: t = 2 floor(sum * up) + 1, at most 2^31, y = clamp(floor(t *
// factor + half) + zero). [0]: of sums below zero.
struct SumSlopeRow {
  const double *up[2] = {}, *factor[2] = {};
  double half = 0, zero = 0;
};
void slope_sums(const SumSlopeRow& row, const int32_t* sums, Stored stored, void* y, int64_t n);

// Whether numbers came as floats or were computed as halves.
enum class RealType : uint8_t { f32, f16 };
// The nearest of x times the float of 1 / scale, ties away from zero, saturated; NaN is the smallest. Of 8
// bits that product is a half, of 16 bits a product of the vector unit's own floats (cpu/qfloat.h) if x is a
// half.
void quantize_row(const float* x, RealType type, Stored stored, const RealCode& code, void* y, int64_t n);
// As the device gives floats: of 8 bits the nearest, ties away from zero, of 16 bits a product of its own
// floats (cpu/qfloat.h), one to three units in the last place away.
void dequantize_row(Stored stored, const RealCode& code, const void* x, float* y, int64_t n);

// A HardSwish of 16 bits over sums, whole numbers in doubles: t = 2 floor(sum * up) + 1, at most 2^30, has
// the gate g = floor(t * slope) + middle, t at most far; from open on it is whole. y = floor(t * g / 2^28) +
// zero, saturated.
struct WideSwishRow {
  const double *up = nullptr, *far = nullptr, *slope = nullptr, *middle = nullptr, *open = nullptr;
  const double* whole = nullptr;
  double zero = 0;
};
void hard_swish_sums(const WideSwishRow& row, const int32_t* sums, uint16_t* y, int64_t n);

// The same with 8 bits, of sums[i] of channel i: with x = (sums[i] << left >> right) | 1, t the same of the
// fine shifts and odd, and the gate g = clamp((t * slope + round >> 12) + middle, 0, most), y = clamp((x * g
// + 2^15 >> 16) + zero).
struct SwishRow {
  const int32_t *left = nullptr, *right = nullptr;
  const int32_t *fine_left = nullptr, *fine_right = nullptr, *odd = nullptr, *round = nullptr;
  const int32_t *slope = nullptr, *middle = nullptr, *most = nullptr;
  const int32_t *low = nullptr, *high = nullptr;   // sums beyond them have their results
  const int32_t *shut = nullptr, *open = nullptr;  // and beyond these their gates: all products have 32 bits
  int32_t zero = 0;
};
void hard_swish_bytes(const SwishRow& swish, const int32_t* sums, uint8_t* y, int64_t n);

// From one encoding to another: floor((floor(((x + offset) * scale + add) * down) + more) * last) + zero,
// saturated, all of it exact in doubles. add is that of even or odd places, `place` being the first's.
struct FixedRecode {
  Stored from = Stored::u16, to = Stored::u16;
  double offset = 0, scale = 1, add[2] = {0, 0}, down = 1, more = 0, last = 1;
  double zero = 0, min = 0, max = 65535;
};
void recode_row(const FixedRecode& recode, const void* x, void* y, int64_t n, int64_t place);

// exponents[d] = exp(-d steps) * 2^30, d from 0 to 255 or 65535. Nearest, halves up. scratch: n numbers.
struct SoftmaxRow {
  Stored in = Stored::u8, out = Stored::u8;
  const uint32_t* exponents = nullptr;
  RealCode code;  // of the output
  // Of real numbers, or as the device has it, which is of at most 16 bits; exponents have 15 then. In the way
  // of 8 bits the scale is a multiple of 2^-16 and results are rounded, but for the smallest sums; in that of
  // 16 bits they are cut.
  enum class Reciprocal { real, bytes, words } reciprocal = Reciprocal::real;
};
void softmax_row(const SoftmaxRow& softmax, const void* x, void* y, int64_t n, uint32_t* scratch);

// y = (x - mean) / deviation * gain + bias. gain and bias are null or have n numbers. rms: the mean is taken
// for 0.
struct NormRow {
  Stored in = Stored::u8, out = Stored::u8;
  RealCode from, to;
  double epsilon = 0;
  bool rms = false;
  const double *gain = nullptr, *bias = nullptr;
};
void norm_row(const NormRow& norm, const void* x, void* y, int64_t n);

// Layer and RMS norms as the device has them. Sums of numbers and of squares are whole;
// all that follows of a row is one of the vector unit's own floats (cpu/qfloat.h). y = floor(v + bias), of an
// RMS norm with v = x * (gain * inverse root), of a layer norm with v = (x - mean) * inverse * gain + 1/2.
// Of bytes an RMS norm's sum is a half. A layer norm's mean is cut to 2^-15 of a number, with 8 bits to 2^-6,
// and the inverse deviation in steps of the result has 16 bits: rounded, 31 places at the most, or cut, with
// 8 bits, which have 16 places.
struct DeviceNormRow {
  Stored in = Stored::u16, out = Stored::u16;
  bool rms = false;
  int32_t offset = 0;  // of the operand; a layer norm needs none
  float epsilon = 0;   // over the square of the operand's scale
  float step = 1;      // a layer norm's gain has numbers of such steps; an RMS norm's has steps of the result
  const double *gain = nullptr, *bias = nullptr;  // bias: with the result's zero point, of numbers unsigned
};
// Rows of n elements that begin at these.
void device_norm_rows(const DeviceNormRow& norm, const void* x, void* y, int64_t n,
                      std::span<const int64_t> starts);

}  // namespace sixfold::cpu
