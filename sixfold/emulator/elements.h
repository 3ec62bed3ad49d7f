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
  // Fixed point and integers: the nearest, ties away from zero, saturated.
  template <typename T>
  T encode(double x) const {
    if constexpr (std::is_same_v<T, float>) return to_half(static_cast<float>(x));
    if constexpr (std::is_same_v<T, Half>) return Half(static_cast<float>(x));
    if constexpr (std::is_integral_v<T>) {
      const double q = std::round(x / scale) - static_cast<double>(offset);
      if (!(q > static_cast<double>(limits.min))) return static_cast<T>(limits.min);
      return static_cast<T>(q < static_cast<double>(limits.max) ? static_cast<int64_t>(q) : limits.max);
    }
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

// From one encoding to another in integers, rounded to the nearest, halves up. The multiplier has 15 bits
// where 8 result, and these are rounded to 64 parts of a step before: one 128th more. From 8 to 16 it has 16
// bits.
struct Recode {
  bool same = true;
  Multiplier ratio;
  int64_t offset_in = 0, offset_out = 0;
  Limits limits;

  static Recode between(const TensorDef& from, const TensorDef& to) {
    Recode r;
    if (!qnn::is_fixed(from.dtype) || !qnn::is_fixed(to.dtype)) return r;
    const ScaleOffset a = from.encoding(), b = to.encoding();
    r.same = from.dtype == to.dtype && a == b;
    const bool narrow = qnn::size_of(to.dtype) == 1, widens = !narrow && qnn::size_of(from.dtype) == 1;
    r.ratio = Multiplier::of(static_cast<double>(a.scale) / static_cast<double>(b.scale), narrow   ? 15
                                                                                          : widens ? 16
                                                                                                   : 31);
    if (narrow && r.ratio.shift >= 7) r.ratio.more = int64_t{1} << (r.ratio.shift - 7);
    r.offset_in = a.offset;
    r.offset_out = b.offset;
    r.limits = limits_of(to.dtype);
    return r;
  }
  int64_t operator()(int64_t q) const {
    return std::clamp(ratio(q + offset_in) - offset_out, limits.min, limits.max);
  }
  // In place, elements [at, at + n) that were moved; from and to have the same type. Floats and plain
  // integers stay as they are.
  void apply(DataType dtype, std::byte* data, int64_t at, int64_t n) const {
    if (same) return;
    with_type(dtype, [&](auto t) {
      using T = decltype(t);
      if constexpr (std::is_integral_v<T>) {
        T* y = reinterpret_cast<T*>(data) + at;
        for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>((*this)(static_cast<int64_t>(y[i])));
      }
    });
  }
};

}  // namespace sixfold::emulator
