// Elements of any type as reals, a row at a time: for ops that are defined over reals (norms, transcendental
// functions, interpolation of grids), and for the parameters of others.
#pragma once

#include <span>

#include "sixfold/cpu/fixed_rows.h"
#include "sixfold/emulator/numbers.h"

namespace sixfold::emulator {

inline bool is_narrow_fixed(DataType t) { return qnn::is_fixed(t) && qnn::size_of(t) <= 2; }
// Fixed point of 8 or 16 bits alone.
inline cpu::Stored stored_as(DataType t) {
  const bool is_signed = limits_of(t).min < 0;
  if (qnn::size_of(t) == 1) return is_signed ? cpu::Stored::s8 : cpu::Stored::u8;
  return is_signed ? cpu::Stored::s16 : cpu::Stored::u16;
}

// What elements of a tensor mean: real = (q + offset) * scale. Plain integers and floats have scale 1.
struct Codec {
  DataType dtype = DataType::f32;
  double scale = 1;
  int64_t offset = 0;
  Limits limits;

  static Codec of(const TensorDef& t) {
    Codec c{.dtype = t.dtype, .limits = limits_of(t.dtype)};
    if (!qnn::is_fixed(t.dtype)) return c;
    c.scale = static_cast<double>(t.encoding().scale);
    c.offset = t.encoding().offset;
    return c;
  }

  cpu::RealCode rows() const {  // of fixed point of 8 or 16 bits
    return {scale, static_cast<int32_t>(offset), static_cast<int32_t>(limits.min),
            static_cast<int32_t>(limits.max)};
  }

  template <typename T>
  double decode(T q) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<double>(static_cast<int64_t>(q) + offset) * scale;
    else
      return static_cast<double>(static_cast<float>(q));
  }
  // Fixed point and integers: the nearest, ties away from zero, saturated. What is no number is the least
  // float.
  template <typename T>
  T encode(double x) const {
    if constexpr (!std::is_integral_v<T>)
      if (std::isnan(x)) return T(-DeviceHalf::kLargest);
    if constexpr (std::is_same_v<T, float>) return to_half(static_cast<float>(x));
    if constexpr (std::is_same_v<T, DeviceHalf>) return DeviceHalf(static_cast<float>(x));
    if constexpr (std::is_integral_v<T>)
      return saturated<T>(std::round(x / scale) - static_cast<double>(offset));
  }
  // Floats as the matrix unit has them (to_ieee_half).
  template <typename T>
  T encode_ieee(double x) const {
    if constexpr (std::is_integral_v<T>)
      return encode<T>(x);
    else
      return T(std::isnan(x) ? -DeviceHalf::kLargest : to_ieee_half(static_cast<float>(x)));
  }
  // As the device fills tables of bytes: in floats, with the scale's reciprocal, ties to the even number.
  uint8_t encode_entry(float x) const {
    return saturated<uint8_t>(
        std::nearbyint(x * (1.0f / static_cast<float>(scale)) - static_cast<float>(offset)));
  }
  // What is in steps of this grid already, halves up, computed as F.
  template <typename T, typename F>
  T encode_steps(F steps) const {
    return saturated<T>(std::floor(steps - static_cast<F>(offset) + F(0.5)));
  }
  template <typename T>
  T saturated(double q) const {
    if (!(q > static_cast<double>(limits.min))) return static_cast<T>(limits.min);
    return static_cast<T>(q < static_cast<double>(limits.max) ? static_cast<int64_t>(q) : limits.max);
  }

  // n elements, `step` apart, from element `at` of a tensor.
  void read(const std::byte* data, int64_t at, int64_t step, std::span<double> out) const {
    with_type(dtype, [&](auto t) {
      using T = decltype(t);
      const T* x = reinterpret_cast<const T*>(data) + at;
      for (size_t i = 0; i < out.size(); ++i) out[i] = decode(x[static_cast<int64_t>(i) * step]);
    });
  }
  void write(std::span<const double> values, std::byte* data, int64_t at, int64_t step) const {
    with_type(dtype, [&](auto t) {
      using T = decltype(t);
      T* y = reinterpret_cast<T*>(data) + at;
      for (size_t i = 0; i < values.size(); ++i) y[static_cast<int64_t>(i) * step] = encode<T>(values[i]);
    });
  }
};

// All elements of a constant; scales of its own for each index of its axis count.
inline std::vector<double> read_constant(const TensorDef& t) {
  std::vector<double> out(static_cast<size_t>(t.count()));
  Codec::of(t).read(t.data, 0, 1, out);
  if (!t.is_per_channel() || t.rank() == 0) return out;
  with_type(t.dtype, [&](auto type) {
    using T = decltype(type);
    if constexpr (std::is_integral_v<T>) {
      const T* q = reinterpret_cast<const T*>(t.data);
      const size_t channels = t.dims.empty() ? 1 : t.dims[0];
      const size_t inner = channels == 0 ? 0 : out.size() / channels;
      for (size_t i = 0; i < out.size(); ++i) {
        const ScaleOffset e = t.channel_encoding(i / inner);
        out[i] = real(static_cast<int64_t>(q[i]), e);
      }
    }
  });
  return out;
}

// From 8 bits to 8, rounded to the nearest, halves up: the multiplier has 15 bits, and products are rounded
// to 64 parts of a step before, or to what is left of them without 8 bits, which is less from a ratio of 2
// on. From 16 on nothing is known but that parts are fine.
inline Multiplier byte_multiplier(double ratio) {
  Multiplier m = Multiplier::of(ratio, 15);
  if (m.shift >= 11)
    m.more = int64_t{1} << std::max(m.shift - 7, 7);
  else if (m.shift >= 7)
    m.more = int64_t{1} << (m.shift - 7);
  return m;
}

// From one encoding to another in integers, rounded to the nearest, halves up. From 8 bits to 8 see above;
// from 8 to 16 the multiplier has 16 bits. From 16 bits numbers are brought to parts of a step, by a
// multiplier of 2^-15, the zero point's part is rounded to such parts by itself, and both together to steps.
// To 16 bits there are 8 parts; elements at even places are rounded to them, those at odd places cut. To 8
// bits the multiplier has 14 bits and there are up to 128 parts, those of the number above; with less than 8
// parts there are steps alone.
struct Recode {
  bool same = true;
  bool in_parts = false, odd_is_cut = false;
  Multiplier ratio;
  int64_t offset_in = 0, offset_out = 0;
  Limits limits;
  int64_t more_parts = 0;  // in_parts: is added to parts before they become steps
  int part_bits = 0;       // a step has 2^part_bits parts

  // tiled: numbers that the device keeps in tiles, where it converts 16 bits as it adds them: a multiplier of
  // 15 bits, at most 2^-16 wide, and the zero point's part rounded up to an even number.
  static Recode between(const TensorDef& from, const TensorDef& to, bool tiled = false) {
    Recode r;
    if (!qnn::is_fixed(from.dtype) || !qnn::is_fixed(to.dtype)) return r;
    const ScaleOffset a = from.encoding(), b = to.encoding();
    r.same = from.dtype == to.dtype && a == b;
    r.offset_in = a.offset;
    r.offset_out = b.offset;
    r.limits = limits_of(to.dtype);
    const bool wide = qnn::size_of(from.dtype) == 2;
    const bool narrow = qnn::size_of(to.dtype) == 1, widens = !narrow && qnn::size_of(from.dtype) == 1;
    const int64_t sign = limits_of(from.dtype).min;
    if (wide && !narrow && tiled) {
      const double ratio = static_cast<double>(a.scale) / static_cast<double>(b.scale);
      int exponent = 0;
      std::frexp(ratio, &exponent);
      r.ratio.shift = std::clamp(15 - exponent, 1, 16);
      r.ratio.multiplier =
          static_cast<int32_t>(std::min(std::floor(std::ldexp(ratio, r.ratio.shift) + 0.5), 1073741824.0));
      r.ratio.more = a.offset * int64_t{r.ratio.multiplier} % 2 != 0;
      return r;
    }
    if (wide && qnn::size_of(to.dtype) == 2) {
      const float multiplier = std::min(std::nearbyint(a.scale / b.scale * 262144.0f), 2147483520.0f);
      r.ratio = {static_cast<int32_t>(multiplier), 15};
      const auto zero = static_cast<float>(sign + a.offset) * multiplier / 32768.0f;
      r.in_parts = r.odd_is_cut = true;
      r.part_bits = 3;
      r.more_parts = static_cast<int64_t>(std::nearbyint(zero)) + 4;
      r.offset_in = -sign;
      return r;
    }
    if (wide && narrow) {
      const double ratio = static_cast<double>(a.scale) / static_cast<double>(b.scale);
      int exponent = 0;
      std::frexp(ratio, &exponent);
      const int shift = 14 - exponent < 18 ? 15 : std::min(14 - exponent, 22);
      const double multiplier = std::min(std::floor(std::ldexp(ratio, shift) + 0.5), 1073741824.0);
      r.in_parts = true;
      r.part_bits = shift - 15;
      r.ratio = {static_cast<int32_t>(multiplier), 15};
      r.offset_in = 1 - sign;
      r.more_parts = r.ratio(sign + a.offset - 1) + ((int64_t{1} << r.part_bits) >> 1);
      return r;
    }
    const double ratio = static_cast<double>(a.scale) / static_cast<double>(b.scale);
    r.ratio = narrow ? byte_multiplier(ratio) : Multiplier::of(ratio, widens ? 16 : 31);
    return r;
  }
  // The element at an even or an odd place of its tensor.
  int64_t operator()(int64_t q, bool odd) const {
    if (!in_parts) return std::clamp(ratio(q + offset_in) - offset_out, limits.min, limits.max);
    const int64_t parts = ((q + offset_in) * ratio.multiplier + (odd && odd_is_cut ? 0 : 1 << 14)) >> 15;
    return std::clamp(((parts + more_parts) >> part_bits) - offset_out, limits.min, limits.max);
  }
  // Whether doubles hold every product: then rows does what operator() does, many at a time.
  bool fits_rows() const { return ratio.shift <= 46; }
  cpu::FixedRecode rows(DataType from, DataType to) const {
    cpu::FixedRecode r{.from = stored_as(from), .to = stored_as(to)};
    r.offset = static_cast<double>(offset_in);
    r.scale = ratio.multiplier;
    r.down = std::ldexp(1.0, -ratio.shift);
    const double half = std::ldexp(1.0, ratio.shift - 1);
    r.add[0] = half + static_cast<double>(ratio.more);
    r.add[1] = odd_is_cut ? 0 : r.add[0];
    if (in_parts) r.more = static_cast<double>(more_parts), r.last = std::ldexp(1.0, -part_bits);
    r.zero = -static_cast<double>(offset_out);
    r.min = static_cast<double>(limits.min), r.max = static_cast<double>(limits.max);
    return r;
  }
  // In place, elements [at, at + n) of data that were moved, `place` being the first's index; from and to
  // have the same type. Floats and plain integers stay as they are.
  void apply(DataType dtype, std::byte* data, int64_t at, int64_t n, int64_t place) const {
    if (same) return;
    with_type(dtype, [&](auto t) {
      using T = decltype(t);
      if constexpr (std::is_integral_v<T>) {
        T* y = reinterpret_cast<T*>(data) + at;
        for (int64_t i = 0; i < n; ++i)
          y[i] = static_cast<T>((*this)(static_cast<int64_t>(y[i]), (place + i) % 2 != 0));
      }
    });
  }
  void apply(DataType dtype, std::byte* data, int64_t at, int64_t n) const { apply(dtype, data, at, n, at); }
};

}  // namespace sixfold::emulator
