// Rows of fixed-point elements that are normalized.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "sixfold/cpu/fixed_rows.h"
#include "sixfold/cpu/quant.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sixfold/cpu/norm_rows.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "sixfold/cpu/fixed_rows-inl.h"
#include "sixfold/cpu/qfloat-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sixfold::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The nearest whole number, ties away from zero.
template <typename D>
inline hn::Vec<D> nearest(D d, hn::Vec<D> v) {
  const auto size = hn::Abs(v), whole = hn::Floor(size);
  const auto more = hn::Add(whole, hn::Set(d, 1.0));
  return hn::CopySign(hn::IfThenElse(hn::Ge(hn::Sub(size, whole), hn::Set(d, 0.5)), more, whole), v);
}

struct NormFactors {
  double mean, factor, per_step;
};
template <typename D, typename T, typename U>
void norm_results(D d, const NormRow& s, const NormFactors& f, const T* x, U* y, int64_t n, int64_t* at) {
  const auto mean = hn::Set(d, f.mean), factor = hn::Set(d, f.factor), per_step = hn::Set(d, f.per_step);
  const auto zero = hn::Set(d, static_cast<double>(-s.to.offset));
  const double min = s.to.min, max = s.to.max;
  const double *gain = s.gain, *bias = s.bias;
  const int32_t offset = s.from.offset;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = *at;
  for (; i + lanes <= n; i += lanes) {
    auto v = hn::Mul(hn::Sub(load_reals(d, x + i, offset), mean), factor);
    if (gain) v = hn::Mul(v, hn::LoadU(d, gain + i));
    if (bias) v = hn::Add(v, hn::Mul(hn::LoadU(d, bias + i), per_step));
    store_reals(d, hn::Add(nearest(d, v), zero), min, max, y + i);
  }
  *at = i;
}

// Of a row's numbers. Exact: they have 17 bits, rows less than 2^29 of them.
struct Sums {
  int64_t numbers = 0, squares = 0;
};
template <typename T>
Sums sums_of(const T* x, int64_t n, int32_t offset) {
  Sums out;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t v = x[i] + offset;
    out.numbers += v;
    out.squares += v * v;
  }
  return out;
}

template <typename T, typename U>
void norm_as(const NormRow& s, const T* x, U* y, int64_t n) {
  const auto [sum, squares] = sums_of(x, n, s.from.offset);
  const auto count = static_cast<double>(n);
  const double mean = s.rms ? 0.0 : static_cast<double>(sum) / count;
  // n times squares minus the sum's square in 128 bits, so that nothing cancels.
  __int128 spread = static_cast<__int128>(squares) * n;
  if (!s.rms) spread -= static_cast<__int128>(sum) * sum;
  const double variance = static_cast<double>(spread) / (count * count) * (s.from.scale * s.from.scale);
  const NormFactors factors{mean, s.from.scale / std::sqrt(variance + s.epsilon) / s.to.scale,
                            1 / s.to.scale};
  int64_t i = 0;
  norm_results(Reals(), s, factors, x, y, n, &i);
  norm_results(OneReal(), s, factors, x, y, n, &i);
}

void norm_row_here(const NormRow& s, const void* x, void* y, int64_t n) {
  with_stored(s.in, [&](auto t) {
    with_stored(s.out, [&](auto u) {
      using T = decltype(t);
      using U = decltype(u);
      norm_as(s, static_cast<const T*>(x), static_cast<U*>(y), n);
    });
  });
}

// The vector unit's floats, one at a time.
inline double product(double a, double b) {
  const OneReal d;
  return hn::GetLane(qfloat_product(d, hn::Set(d, a), hn::Set(d, b)));
}
inline double sum(double a, double b) {
  const OneReal d;
  return hn::GetLane(qfloat_sum(d, hn::Set(d, a), hn::Set(d, b)));
}
// A whole number times a float: 16 bits of it at a time, from the last on; the first has what is left.
double scaled(unsigned __int128 whole, int parts, float factor) {
  double total = 0;
  for (int i = 0; i < parts; ++i) {
    const auto bits = static_cast<uint64_t>(whole >> (16 * i));
    const auto part = static_cast<double>(i + 1 < parts ? bits & 0xFFFF : bits);
    total = sum(product(std::ldexp(part, 16 * i), factor), total);
  }
  return total;
}
// Newton's steps from a guess by the bits of a float.
double inverse_root(double x, int steps) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(x));
  const double half = product(x, 0.5);
  double y = std::bit_cast<float>(0x5F375A86u - (bits >> 1));
  for (int step = 0; step < steps; ++step) y = product(y, sum(1.5, -product(product(half, y), y)));
  return y;
}

// y = floor(v) + low, saturated, v being products of the vector unit's floats. A product whose sign is
// negative is below 0, if it is that of 0, too.
template <typename D, typename T, typename U>
void rms_results(D d, const DeviceNormRow& s, double factor, const T* x, U* y, int64_t n, int64_t* at) {
  const auto row = hn::Set(d, factor), least = hn::Set(d, -0x1p-36), zero = hn::Zero(d);
  const auto low = hn::Set(d, static_cast<double>(std::numeric_limits<U>::min()));
  const double min = std::numeric_limits<U>::min(), max = std::numeric_limits<U>::max();
  const double *gain = s.gain, *bias = s.bias;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = *at;
  for (; i + lanes <= n; i += lanes) {
    const auto v = load_reals(d, x + i, s.offset), g = hn::LoadU(d, gain + i);
    const auto product = qfloat_product(d, v, qfloat_product(d, g, row));
    const auto below = hn::Xor(hn::Lt(v, zero), hn::Lt(g, zero));
    const auto signed_product = hn::IfThenElse(below, hn::Min(product, least), product);
    auto q = hn::Add(signed_product, hn::LoadU(d, bias + i));
    if constexpr (sizeof(T) == 1) {
      // A half: 11 bits of it, what is left of 53 when 42 more are added and taken off.
      const auto far = hn::Mul(q, hn::Set(d, 0x1p42 + 1));
      q = hn::Sub(far, hn::Sub(far, q));
    }
    store_reals(d, hn::Add(hn::Floor(q), low), min, max, y + i);
  }
  *at = i;
}
// y = floor((x - mean) * factor * gain + bias + 1/2) + low, saturated.
template <typename D, typename T, typename U>
void layer_results(D d, const DeviceNormRow& s, double mean, double factor, const T* x, U* y, int64_t n,
                   int64_t* at) {
  const auto middle = hn::Set(d, mean), row = hn::Set(d, factor), half = hn::Set(d, 0.5);
  const auto low = hn::Set(d, static_cast<double>(std::numeric_limits<U>::min()));
  const double min = std::numeric_limits<U>::min(), max = std::numeric_limits<U>::max();
  const double *gain = s.gain, *bias = s.bias;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = *at;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::Mul(hn::Sub(load_reals(d, x + i, 0), middle), row);
    const auto steps = hn::Add(hn::Mul(v, hn::LoadU(d, gain + i)), hn::LoadU(d, bias + i));
    store_reals(d, hn::Add(hn::Floor(hn::Add(steps, half)), low), min, max, y + i);
  }
  *at = i;
}

template <typename T, typename U>
void device_norm_as(const DeviceNormRow& s, const T* x, U* y, int64_t n) {
  // A layer norm's numbers have no sign.
  const int32_t offset = s.rms ? s.offset : -std::numeric_limits<T>::min();
  const auto [total, squares] = sums_of(x, n, offset);
  const auto count = static_cast<float>(n);
  int64_t i = 0;
  if (s.rms) {
    const double mean = scaled(static_cast<uint64_t>(squares), 3, 1 / count);
    const double factor = inverse_root(sum(mean, s.epsilon), 3);
    rms_results(Reals(), s, factor, x, y, n, &i);
    return rms_results(OneReal(), s, factor, x, y, n, &i);
  }
  const auto wide = static_cast<unsigned __int128>(total);
  const unsigned __int128 spread =
      static_cast<unsigned __int128>(squares) * static_cast<uint64_t>(n) - wide * wide;
  constexpr bool kBytes = sizeof(T) == 1;
  constexpr double kParts = kBytes ? 64 : 32768;  // of the mean
  const double mean = std::floor(scaled(wide, 3, 1 / count) * kParts) / kParts - offset;
  const double variance = scaled(spread, 4, 1 / static_cast<float>(n * n));
  double factor = product(inverse_root(sum(variance, s.epsilon), kBytes ? 2 : 3), s.step);
  // 16 bits of it, 16 or 31 places at the most.
  int exponent = 0;
  std::frexp(factor, &exponent);
  const int places = std::min(16 - exponent, kBytes ? 16 : 31);
  factor = std::min(std::floor(std::ldexp(factor, places) + (kBytes ? 0 : 0.5)), 65535.0);
  factor = std::ldexp(factor, -places);
  if (!kBytes && spread == 0) factor = 0;  // equal numbers are beside their mean
  layer_results(Reals(), s, mean, factor, x, y, n, &i);
  layer_results(OneReal(), s, mean, factor, x, y, n, &i);
}

void device_norm_row_here(const DeviceNormRow& s, const void* x, void* y, int64_t n) {
  with_stored(s.in, [&](auto t) {
    with_stored(s.out, [&](auto u) {
      using T = decltype(t);
      using U = decltype(u);
      device_norm_as(s, static_cast<const T*>(x), static_cast<U*>(y), n);
    });
  });
}

}  // namespace sixfold::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sixfold::cpu {

HWY_EXPORT(norm_row_here);
HWY_EXPORT(device_norm_row_here);

// quant_kernels() first: the environment may keep all SIMD code to fewer instructions.
void norm_row(const NormRow& s, const void* x, void* y, int64_t n) {
  quant_kernels();
  HWY_DYNAMIC_DISPATCH(norm_row_here)(s, x, y, n);
}
void device_norm_row(const DeviceNormRow& s, const void* x, void* y, int64_t n) {
  quant_kernels();
  HWY_DYNAMIC_DISPATCH(device_norm_row_here)(s, x, y, n);
}

}  // namespace sixfold::cpu
#endif
