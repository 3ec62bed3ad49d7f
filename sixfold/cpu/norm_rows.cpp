// Rows of fixed-point elements that are normalized.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

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
template <typename D, typename T>
void add_sums(D d, const T* x, int64_t n, int32_t offset, int64_t* at, Sums* out) {
  constexpr int64_t kExact = int64_t{1} << 18;  // numbers whose squares doubles sum exactly
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = *at; i + lanes <= n; *at = i) {
    const int64_t end = std::min(n, i + kExact);
    auto numbers0 = hn::Zero(d), numbers1 = numbers0, squares0 = numbers0, squares1 = numbers0;
    for (; i + 2 * lanes <= end; i += 2 * lanes) {
      const auto a = load_reals(d, x + i, offset), b = load_reals(d, x + i + lanes, offset);
      numbers0 = hn::Add(numbers0, a);
      numbers1 = hn::Add(numbers1, b);
      squares0 = hn::MulAdd(a, a, squares0);
      squares1 = hn::MulAdd(b, b, squares1);
    }
    for (; i + lanes <= end; i += lanes) {
      const auto a = load_reals(d, x + i, offset);
      numbers0 = hn::Add(numbers0, a);
      squares0 = hn::MulAdd(a, a, squares0);
    }
    out->numbers += static_cast<int64_t>(hn::GetLane(hn::SumOfLanes(d, hn::Add(numbers0, numbers1))));
    out->squares += static_cast<int64_t>(hn::GetLane(hn::SumOfLanes(d, hn::Add(squares0, squares1))));
  }
}
template <typename T>
Sums sums_of(const T* x, int64_t n, int32_t offset) {
  Sums out;
  int64_t i = 0;
  add_sums(Reals(), x, n, offset, &i, &out);
  add_sums(OneReal(), x, n, offset, &i, &out);
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

// Rows beside each other, a lane for each.
constexpr size_t kRows = 8;
using RowLanes = hn::CappedTag<double, kRows>;
using RowReals = std::array<double, kRows>;
template <typename F>
inline RowReals for_lanes(const F& f) {
  const RowLanes d;
  alignas(64) RowReals out;
  for (size_t k = 0; k < kRows; k += hn::Lanes(d)) hn::StoreU(f(d, k), d, out.data() + k);
  return out;
}

// Whole numbers times a float: 16 bits of them at a time, from the last on; the first has what is left.
using Wholes = std::array<unsigned __int128, kRows>;
RowReals scaled(const Wholes& wholes, int parts, float factor) {
  RowReals total{};
  for (int i = 0; i < parts; ++i) {
    RowReals part;
    for (size_t k = 0; k < kRows; ++k) {
      const auto bits = static_cast<uint64_t>(wholes[k] >> (16 * i));
      part[k] =
          static_cast<double>(i + 1 < parts ? bits & 0xFFFF : bits) * static_cast<double>(1ull << (16 * i));
    }
    total = for_lanes([&](auto d, size_t k) {
      const auto product = qfloat_product(d, hn::LoadU(d, part.data() + k), hn::Set(d, double{factor}));
      return qfloat_sum(d, product, hn::LoadU(d, total.data() + k));
    });
  }
  return total;
}
// Of numbers and an epsilon, by Newton's steps from a guess by the bits of a float.
RowReals inverse_roots(const RowReals& numbers, float epsilon, int steps) {
  return for_lanes([&](auto d, size_t k) {
    const hn::Rebind<float, decltype(d)> df;
    const hn::RebindToUnsigned<decltype(df)> du;
    const auto x = qfloat_sum(d, hn::LoadU(d, numbers.data() + k), hn::Set(d, double{epsilon}));
    const auto bits = hn::BitCast(du, hn::DemoteTo(df, x));
    const auto guess = hn::Sub(hn::Set(du, 0x5F375A86u), hn::ShiftRight<1>(bits));
    const auto half = qfloat_product(d, x, hn::Set(d, 0.5));
    auto y = hn::PromoteTo(d, hn::BitCast(df, guess));
    for (int step = 0; step < steps; ++step) {
      const auto square = qfloat_product(d, qfloat_product(d, half, y), y);
      y = qfloat_product(d, y, qfloat_sum(d, hn::Set(d, 1.5), hn::Neg(square)));
    }
    return y;
  });
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

// What a layer norm's numbers are multiplied by: 16 bits, 16 or 31 places at the most.
double cut_factor(double factor, bool bytes) {
  int exponent = 0;
  std::frexp(factor, &exponent);
  const int places = std::min(16 - exponent, bytes ? 16 : 31);
  return std::ldexp(std::min(std::floor(std::ldexp(factor, places) + (bytes ? 0 : 0.5)), 65535.0), -places);
}

template <typename T, typename U>
void device_norm_as(const DeviceNormRow& s, const T* x, U* y, int64_t n, std::span<const int64_t> starts) {
  // A layer norm's numbers have no sign.
  const int32_t offset = s.rms ? s.offset : -std::numeric_limits<T>::min();
  const auto count = static_cast<float>(n);
  Wholes wholes{}, spreads{};
  for (size_t k = 0; k < starts.size(); ++k) {
    const auto [total, squares] = sums_of(x + starts[k], n, offset);
    wholes[k] = static_cast<unsigned __int128>(s.rms ? squares : total);
    if (!s.rms)
      spreads[k] = static_cast<unsigned __int128>(squares) * static_cast<uint64_t>(n) - wholes[k] * wholes[k];
  }
  const RowReals means = scaled(wholes, 3, 1 / count);
  if (s.rms) {
    const RowReals factors = inverse_roots(means, s.epsilon, 3);
    for (size_t k = 0; k < starts.size(); ++k) {
      int64_t i = 0;
      rms_results(Reals(), s, factors[k], x + starts[k], y + starts[k], n, &i);
      rms_results(OneReal(), s, factors[k], x + starts[k], y + starts[k], n, &i);
    }
    return;
  }
  constexpr bool kBytes = sizeof(T) == 1;
  constexpr double kParts = kBytes ? 64 : 32768;  // of the mean
  const RowReals roots =
      inverse_roots(scaled(spreads, 4, 1 / static_cast<float>(n * n)), s.epsilon, kBytes ? 2 : 3);
  const RowReals factors = for_lanes([&](auto d, size_t k) {
    return qfloat_product(d, hn::LoadU(d, roots.data() + k), hn::Set(d, double{s.step}));
  });
  for (size_t k = 0; k < starts.size(); ++k) {
    const double mean = std::floor(means[k] * kParts) / kParts - offset;
    // Equal numbers are beside their mean.
    const double factor = !kBytes && spreads[k] == 0 ? 0 : cut_factor(factors[k], kBytes);
    int64_t i = 0;
    layer_results(Reals(), s, mean, factor, x + starts[k], y + starts[k], n, &i);
    layer_results(OneReal(), s, mean, factor, x + starts[k], y + starts[k], n, &i);
  }
}

void device_norm_rows_here(const DeviceNormRow& s, const void* x, void* y, int64_t n,
                           std::span<const int64_t> starts) {
  with_stored(s.in, [&](auto t) {
    with_stored(s.out, [&](auto u) {
      using T = decltype(t);
      using U = decltype(u);
      for (size_t k = 0; k < starts.size(); k += kRows)
        device_norm_as(s, static_cast<const T*>(x), static_cast<U*>(y), n,
                       starts.subspan(k, std::min(kRows, starts.size() - k)));
    });
  });
}

}  // namespace sixfold::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sixfold::cpu {

HWY_EXPORT(norm_row_here);
HWY_EXPORT(device_norm_rows_here);

// quant_kernels() first: the environment may keep all SIMD code to fewer instructions.
void norm_row(const NormRow& s, const void* x, void* y, int64_t n) {
  quant_kernels();
  HWY_DYNAMIC_DISPATCH(norm_row_here)(s, x, y, n);
}
void device_norm_rows(const DeviceNormRow& s, const void* x, void* y, int64_t n,
                      std::span<const int64_t> starts) {
  quant_kernels();
  HWY_DYNAMIC_DISPATCH(device_norm_rows_here)(s, x, y, n, starts);
}

}  // namespace sixfold::cpu
#endif
