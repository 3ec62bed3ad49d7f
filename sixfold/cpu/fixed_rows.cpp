#include "sixfold/cpu/fixed_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "sixfold/cpu/quant.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sixfold/cpu/fixed_rows.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sixfold::cpu::HWY_NAMESPACE {

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

// Sums of 8-bit numbers times 15 bits fit 32. The rest is exact in doubles: 32 bits times 15.
template <PairOp Op, typename T>
inline T pair_result(const FixedPair& p, double half, double unit, T a, T b) {
  const int32_t u = a + p.offset_a, v = b + p.offset_b;
  if constexpr (sizeof(T) == 1 && Op != PairOp::multiply) {
    const int32_t x = u * p.scale_a, y = v * p.scale_b;
    const int32_t sum = Op == PairOp::add ? x + y : Op == PairOp::maximum ? std::max(x, y) : std::min(x, y);
    const int32_t q = ((sum + static_cast<int32_t>(half)) >> p.shift) + p.zero;
    return static_cast<T>(std::min(std::max(q, p.min), p.max));
  } else {
    const double x = static_cast<double>(u), y = static_cast<double>(v), f = p.scale_a, g = p.scale_b;
    const double sum = Op == PairOp::multiply  ? x * y * f
                       : Op == PairOp::add     ? x * f + y * g
                       : Op == PairOp::maximum ? std::max(x * f, y * g)
                                               : std::min(x * f, y * g);
    const double q = std::floor((sum + half) * unit) + p.zero;
    return static_cast<T>(
        static_cast<int32_t>(std::min(std::max(q, static_cast<double>(p.min)), static_cast<double>(p.max))));
  }
}

template <PairOp Op, typename T>
void pair_row(const FixedPair& given, const T* __restrict a, int64_t step_a, const T* __restrict b,
              int64_t step_b, T* __restrict y, int64_t n) {
  const FixedPair p = given;  // results cannot change it
  const double half = std::ldexp(1.0, p.shift - 1) + p.constant, unit = std::ldexp(1.0, -p.shift);
  if (step_a == 1 && step_b == 1) {
    for (int64_t i = 0; i < n; ++i) y[i] = pair_result<Op>(p, half, unit, a[i], b[i]);
  } else if (step_b == 0) {
    const T second = *b;
    for (int64_t i = 0; i < n; ++i) y[i] = pair_result<Op>(p, half, unit, a[i * step_a], second);
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = pair_result<Op>(p, half, unit, a[i * step_a], b[i * step_b]);
  }
}

void fixed_pair_here(const FixedPair& p, const void* a, int64_t step_a, const void* b, int64_t step_b,
                     void* y, int64_t n) {
  with_stored(p.stored, [&](auto t) {
    using T = decltype(t);
    const auto *u = static_cast<const T*>(a), *v = static_cast<const T*>(b);
    auto* to = static_cast<T*>(y);
    switch (p.op) {
      case PairOp::add:
        return pair_row<PairOp::add>(p, u, step_a, v, step_b, to, n);
      case PairOp::multiply:
        return pair_row<PairOp::multiply>(p, u, step_a, v, step_b, to, n);
      case PairOp::maximum:
        return pair_row<PairOp::maximum>(p, u, step_a, v, step_b, to, n);
      case PairOp::minimum:
        return pair_row<PairOp::minimum>(p, u, step_a, v, step_b, to, n);
    }
  });
}

void clamp_row_here(Stored stored, const void* x, void* y, int64_t n, int32_t min, int32_t max) {
  with_stored(stored, [&](auto t) {
    using T = decltype(t);
    const T* __restrict from = static_cast<const T*>(x);
    T* __restrict to = static_cast<T*>(y);
    const T low = static_cast<T>(min), high = static_cast<T>(max);
    for (int64_t i = 0; i < n; ++i) to[i] = std::min(std::max(from[i], low), high);
  });
}

// The nearest whole number, ties away from zero, plus zero, between min and max.
template <typename T>
inline T nearest(double v, double zero, double min, double max) {
  const double size = std::abs(v), whole = std::floor(size);
  const double near = size - whole >= 0.5 ? whole + 1 : whole;
  const double q = (v < 0 ? -near : near) + zero;
  return static_cast<T>(static_cast<int32_t>(q > min ? (q < max ? q : max) : min));
}

// The nearest half of a number that is not tiny: 10 bits of mantissa, ties to even. Beyond a half's range it
// stays large.
inline float nearest_half(float v) {
  uint32_t bits;
  std::memcpy(&bits, &v, sizeof bits);
  bits = (bits + 0xFFF + ((bits >> 13) & 1)) & ~uint32_t{0x1FFF};
  std::memcpy(&v, &bits, sizeof v);
  return v;
}

template <typename T>
void quantize_as(const float* __restrict x, const RealCode& code, T* __restrict y, int64_t n) {
  if constexpr (sizeof(T) == 1) {
    const float steps = 1 / static_cast<float>(code.scale), zero = -static_cast<float>(code.offset);
    const float min = static_cast<float>(code.min), max = static_cast<float>(code.max);
    for (int64_t i = 0; i < n; ++i) {
      const float v = nearest_half(x[i] * steps), size = std::abs(v), whole = std::floor(size);
      const float near = size - whole >= 0.5f ? whole + 1 : whole;
      const float q = (v < 0 ? -near : near) + zero;
      y[i] = static_cast<T>(static_cast<int32_t>(q > min ? (q < max ? q : max) : min));
    }
  } else {
    const double scale = code.scale, zero = -static_cast<double>(code.offset), min = code.min, max = code.max;
    for (int64_t i = 0; i < n; ++i) y[i] = nearest<T>(static_cast<double>(x[i]) / scale, zero, min, max);
  }
}

void quantize_row_here(const float* x, Stored stored, const RealCode& code, void* y, int64_t n) {
  const RealCode here = code;
  with_stored(stored, [&](auto t) { quantize_as(x, here, static_cast<decltype(t)*>(y), n); });
}

template <typename T>
void dequantize_as(const T* __restrict x, double scale, int32_t offset, float* __restrict y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(static_cast<double>(x[i] + offset) * scale);
}

void dequantize_row_here(Stored stored, const RealCode& code, const void* x, float* y, int64_t n) {
  with_stored(stored, [&](auto t) {
    dequantize_as(static_cast<const decltype(t)*>(x), code.scale, code.offset, y, n);
  });
}

// Results of exponents; factor is the output's steps of 1 over the sum.
template <typename U>
void softmax_results(const uint32_t* __restrict e, int64_t n, double factor, RealCode code, U* __restrict y) {
  const double zero = -static_cast<double>(code.offset), min = code.min, max = code.max;
  for (int64_t i = 0; i < n; ++i) {
    const double q = std::floor(static_cast<double>(static_cast<int32_t>(e[i])) * factor + 0.5) + zero;
    y[i] = static_cast<U>(static_cast<int32_t>(std::min(std::max(q, min), max)));
  }
}

void softmax_row_here(const SoftmaxRow& s, const void* x, void* y, int64_t n, uint32_t* scratch) {
  with_stored(s.in, [&](auto t) {
    using T = decltype(t);
    const auto* from = static_cast<const T*>(x);
    T largest = from[0];
    for (int64_t i = 1; i < n; ++i) largest = std::max(largest, from[i]);
    const int32_t top = largest;
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      scratch[i] = s.exponents[top - from[i]];
      sum += scratch[i];
    }
    const double factor = 1 / s.code.scale / static_cast<double>(sum);
    with_stored(s.out, [&](auto u) {
      using U = decltype(u);
      softmax_results(scratch, n, factor, s.code, static_cast<U*>(y));
    });
  });
}

template <typename T, typename U>
struct NormResults {
  int32_t offset;
  double mean, factor, per_step, zero, min, max;

  void all(const T* __restrict x, const double* __restrict gain, const double* __restrict bias,
           U* __restrict y, int64_t n) const {
    const NormResults r = *this;
    for (int64_t i = 0; i < n; ++i) y[i] = r.one(x[i], gain[i], bias[i]);
  }
  void without_bias(const T* __restrict x, const double* __restrict gain, U* __restrict y, int64_t n) const {
    const NormResults r = *this;
    for (int64_t i = 0; i < n; ++i) y[i] = r.one(x[i], gain[i], 0);
  }
  void without_gain(const T* __restrict x, const double* __restrict bias, U* __restrict y, int64_t n) const {
    const NormResults r = *this;
    for (int64_t i = 0; i < n; ++i) y[i] = r.one(x[i], 1, bias ? bias[i] : 0);
  }
  U one(T x, double gain, double bias) const {
    const double v = (static_cast<double>(x + offset) - mean) * factor * gain;
    return nearest<U>(v + bias * per_step, zero, min, max);
  }
};

template <typename T, typename U>
void norm_as(const NormRow& s, const T* x, U* y, int64_t n) {
  const int32_t offset = s.from.offset;
  // Exact: numbers have 17 bits, rows less than 2^29 of them.
  int64_t sum = 0, squares = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t v = x[i] + offset;
    sum += v;
    squares += v * v;
  }
  const auto count = static_cast<double>(n);
  const double mean = s.rms ? 0.0 : static_cast<double>(sum) / count;
  // n times squares minus the sum's square in 128 bits, so that nothing cancels.
  __int128 spread = static_cast<__int128>(squares) * n;
  if (!s.rms) spread -= static_cast<__int128>(sum) * sum;
  const double variance = static_cast<double>(spread) / (count * count) * (s.from.scale * s.from.scale);
  const NormResults<T, U> results{offset,
                                  mean,
                                  s.from.scale / std::sqrt(variance + s.epsilon) / s.to.scale,
                                  1 / s.to.scale,
                                  static_cast<double>(-s.to.offset),
                                  static_cast<double>(s.to.min),
                                  static_cast<double>(s.to.max)};
  if (s.gain && s.bias)
    results.all(x, s.gain, s.bias, y, n);
  else if (s.gain)
    results.without_bias(x, s.gain, y, n);
  else
    results.without_gain(x, s.bias, y, n);
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

}  // namespace sixfold::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sixfold::cpu {

HWY_EXPORT(fixed_pair_here);
HWY_EXPORT(clamp_row_here);
HWY_EXPORT(quantize_row_here);
HWY_EXPORT(dequantize_row_here);
HWY_EXPORT(softmax_row_here);
HWY_EXPORT(norm_row_here);

// quant_kernels() first: the environment may keep all SIMD code to fewer instructions.
void fixed_pair(const FixedPair& p, const void* a, int64_t step_a, const void* b, int64_t step_b, void* y,
                int64_t n) {
  quant_kernels();
  HWY_DYNAMIC_DISPATCH(fixed_pair_here)(p, a, step_a, b, step_b, y, n);
}
void clamp_row(Stored stored, const void* x, void* y, int64_t n, int32_t min, int32_t max) {
  quant_kernels();
  HWY_DYNAMIC_DISPATCH(clamp_row_here)(stored, x, y, n, min, max);
}
void quantize_row(const float* x, Stored stored, const RealCode& code, void* y, int64_t n) {
  quant_kernels();
  HWY_DYNAMIC_DISPATCH(quantize_row_here)(x, stored, code, y, n);
}
void dequantize_row(Stored stored, const RealCode& code, const void* x, float* y, int64_t n) {
  quant_kernels();
  HWY_DYNAMIC_DISPATCH(dequantize_row_here)(stored, code, x, y, n);
}
void softmax_row(const SoftmaxRow& s, const void* x, void* y, int64_t n, uint32_t* scratch) {
  quant_kernels();
  HWY_DYNAMIC_DISPATCH(softmax_row_here)(s, x, y, n, scratch);
}
void norm_row(const NormRow& s, const void* x, void* y, int64_t n) {
  quant_kernels();
  HWY_DYNAMIC_DISPATCH(norm_row_here)(s, x, y, n);
}

#if defined(__x86_64__)
// 64 at once: each half of the table by a permutation of two registers, chosen by the top bit.
__attribute__((target("avx512f,avx512bw,avx512vbmi"))) static void lookup_vbmi(const uint8_t* table,
                                                                               const uint8_t* x, uint8_t* y,
                                                                               int64_t n) {
  __m512i part[4];
  for (int i = 0; i < 4; ++i) part[i] = _mm512_loadu_si512(table + 64 * i);
  for (int64_t i = 0; i < n; i += 64) {
    const __mmask64 some = n - i >= 64 ? ~__mmask64{0} : (__mmask64{1} << (n - i)) - 1;
    const __m512i v = _mm512_maskz_loadu_epi8(some, x + i);
    const __m512i low = _mm512_permutex2var_epi8(part[0], v, part[1]);
    const __m512i high = _mm512_permutex2var_epi8(part[2], v, part[3]);
    _mm512_mask_storeu_epi8(y + i, some, _mm512_mask_blend_epi8(_mm512_movepi8_mask(v), low, high));
  }
}
#endif

void lookup_bytes(const uint8_t* table, const uint8_t* x, uint8_t* y, int64_t n) {
#if defined(__x86_64__)
  static const bool vbmi =
      std::strcmp(quant_kernels().name, "vnni") == 0 && __builtin_cpu_supports("avx512vbmi");
  if (vbmi && n >= 64) return lookup_vbmi(table, x, y, n);
#endif
  for (int64_t i = 0; i < n; ++i) y[i] = table[x[i]];
}

}  // namespace sixfold::cpu
#endif
