// Rounding and scaling as kernels of the emulator share them.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "sixfold/base/half.h"
#include "sixfold/emulator/op_view.h"

namespace sixfold::emulator {

// A half as the device's vector unit has it: the nearest, ties away from zero. The largest exponent is one
// like the others, so numbers reach 131008; what is larger becomes that, as infinity and NaN do. Clients read
// 65536 (0x7c00) as infinity and what is beyond as NaN.
struct DeviceHalf {
  static constexpr float kLargest = 131008, kInfinity = 65536;
  uint16_t bits = 0;
  DeviceHalf() = default;
  DeviceHalf(float f) {  // NOLINT(google-explicit-constructor)
    const auto b = std::bit_cast<uint32_t>(f), magnitude = b & 0x7fffffffu;
    const uint32_t rounded = magnitude < 0x38800000u  // 2^-14: parts of 2^-24
                                 ? static_cast<uint32_t>(std::abs(f) * 16777216.0f + 0.5f)
                                 : (magnitude - 0x38000000u + 0x1000u) >> 13;
    bits = static_cast<uint16_t>((b >> 16 & 0x8000u) | std::min(rounded, 0x7fffu));
  }
  operator float() const {  // NOLINT(google-explicit-constructor)
    if ((bits & 0x7c00u) != 0x7c00u) return half_to_float(bits);
    return std::bit_cast<float>(static_cast<uint32_t>(bits & 0x8000u) << 16 | 0x47800000u |
                                static_cast<uint32_t>(bits & 0x3ffu) << 13);
  }
};
// The nearest of these, as a float: what the device keeps of a FLOAT_32.
inline float to_half(float x) { return DeviceHalf(x); }
// Sums and the matrix unit, whose halves are IEEE's: ties go to the even one, and beyond 65504 is infinity,
// which is 65536 to other ops.
inline float to_ieee_half(float x) {
  return std::abs(x) < 65520.0f ? half_to_float(float_to_half(x)) : std::copysign(DeviceHalf::kInfinity, x);
}

// What the matrix unit adds for a bias, a half: of one below 2^-14 it takes the exponent as it is stored, and
// the hidden bit as if there were one.
inline float to_bias(float half) {
  const float size = std::abs(half);
  return size == 0 || size >= 0x1p-14f ? half : std::copysign(0x1p-15f + size / 2, half);
}

// x * multiplier / 2^shift, rounded to the nearest, halves up.
struct Multiplier {
  int32_t multiplier = 0;
  int32_t shift = 0;  // 1 to 62
  int64_t more = 0;   // is added before the shift

  // ratio: 0 <= ratio < 2^30, kept with so many bits
  static Multiplier of(double ratio, int bits = 31) {
    if (!(ratio > 0) || !std::isfinite(ratio)) return {0, 1};
    int exponent = 0;
    const double mantissa = std::frexp(ratio, &exponent);  // [0.5, 1)
    auto m = static_cast<int64_t>(std::llround(std::ldexp(mantissa, bits)));
    if (m == int64_t{1} << bits) {
      m /= 2;
      ++exponent;
    }
    const int shift = bits - exponent;
    if (shift > 62) return {static_cast<int32_t>(shift - 62 > 31 ? 0 : m >> (shift - 62)), 62};
    if (shift < 1) return {std::numeric_limits<int32_t>::max(), 1};  // saturates whatever is scaled
    return {static_cast<int32_t>(m), shift};
  }
  int64_t operator()(int64_t x) const {
    return (x * multiplier + (int64_t{1} << (shift - 1)) + more) >> shift;
  }
};

// What a fixed-point element may be.
struct Limits {
  int64_t min = 0, max = 0;
};
inline Limits limits_of(DataType dtype) {
  switch (dtype) {
    case DataType::ufixed8:
    case DataType::u8:
      return {0, 255};
    case DataType::sfixed8:
    case DataType::i8:
      return {-128, 127};
    case DataType::ufixed16:
    case DataType::u16:
      return {0, 65535};
    case DataType::sfixed16:
    case DataType::i16:
      return {-32768, 32767};
    case DataType::u32:
    case DataType::ufixed32:
      return {0, UINT32_MAX};
    default:
      return {INT32_MIN, INT32_MAX};
  }
}

inline double real(int64_t q, ScaleOffset e) {
  return (static_cast<double>(q) + e.offset) * static_cast<double>(e.scale);
}
// The nearest element; ties away from zero.
inline int64_t quantized(double x, ScaleOffset e, Limits limits) {
  const double q = std::round(x / static_cast<double>(e.scale)) - e.offset;
  if (!(q > static_cast<double>(limits.min))) return limits.min;  // NaN too
  return q < static_cast<double>(limits.max) ? static_cast<int64_t>(q) : limits.max;
}

// f(T()) with the element type of a tensor's storage. FLOAT_32 and FLOAT_16 are float and DeviceHalf.
template <typename F>
auto with_type(DataType dtype, const F& f) {
  switch (dtype) {
    case DataType::ufixed8:
    case DataType::u8:
    case DataType::boolean:
      return f(uint8_t{});
    case DataType::sfixed8:
    case DataType::i8:
      return f(int8_t{});
    case DataType::ufixed16:
    case DataType::u16:
      return f(uint16_t{});
    case DataType::sfixed16:
    case DataType::i16:
      return f(int16_t{});
    case DataType::u32:
    case DataType::ufixed32:
      return f(uint32_t{});
    case DataType::i64:
      return f(int64_t{});
    case DataType::u64:
      return f(uint64_t{});
    case DataType::f32:
      return f(float{});
    case DataType::f16:
      return f(DeviceHalf{});
    default:
      return f(int32_t{});
  }
}

}  // namespace sixfold::emulator
