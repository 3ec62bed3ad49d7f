#include "sixfold/cpu/fixed_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "sixfold/cpu/quant.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sixfold/cpu/fixed_rows.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "sixfold/cpu/fixed_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sixfold::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Exact: 17 bits times 31. Results from *at on, as many as vectors hold.
template <PairOp Op, typename D, typename T>
void pair_reals(D d, const FixedPair& p, const T* a, int64_t step_a, const T* b, int64_t step_b, T* y,
                int64_t n, int64_t* at) {
  const auto f = hn::Set(d, static_cast<double>(p.scale_a)), g = hn::Set(d, static_cast<double>(p.scale_b));
  const auto half = hn::Set(d, std::ldexp(1.0, p.shift - 1) + static_cast<double>(p.constant));
  const auto more = hn::Set(d, static_cast<double>(p.more_b));
  const auto unit = hn::Set(d, std::ldexp(1.0, -p.shift)), zero = hn::Set(d, static_cast<double>(p.zero));
  const auto only_a = hn::Set(d, static_cast<double>(*a + p.offset_a)),
             only_b = hn::Set(d, static_cast<double>(*b + p.offset_b));
  const double min = p.min, max = p.max;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = *at;
  for (; i + lanes <= n; i += lanes) {
    const auto u = step_a ? load_reals(d, a + i, p.offset_a) : only_a;
    const auto v = step_b ? load_reals(d, b + i, p.offset_b) : only_b;
    auto sum = hn::Mul(u, f);
    if constexpr (Op == PairOp::add) sum = hn::Add(sum, hn::Mul(v, g));
    if constexpr (Op == PairOp::maximum) sum = hn::Max(sum, hn::Add(hn::Mul(v, g), more));
    if constexpr (Op == PairOp::minimum) sum = hn::Min(sum, hn::Add(hn::Mul(v, g), more));
    const auto q = hn::Floor(hn::Mul(hn::Add(sum, half), unit));
    store_reals(d, hn::Add(q, zero), min, max, y + i);
  }
  *at = i;
}

// Sums and products of 8-bit numbers times 15 bits fit 32, as the shift of a product is at most 22.
template <PairOp Op, typename T>
inline T pair_result(const FixedPair& p, int32_t half, T a, T b) {
  const int32_t x = (a + p.offset_a) * p.scale_a, y = (b + p.offset_b) * p.scale_b;
  const int32_t sum = Op == PairOp::multiply  ? x * (b + p.offset_b)
                      : Op == PairOp::add     ? x + y
                      : Op == PairOp::maximum ? std::max(x, y)
                                              : std::min(x, y);
  const int32_t q = ((sum + half) >> p.shift) + p.zero;
  return static_cast<T>(std::min(std::max(q, p.min), p.max));
}

template <PairOp Op, typename T>
void pair_row(const FixedPair& given, const T* __restrict a, int64_t step_a, const T* __restrict b,
              int64_t step_b, T* __restrict y, int64_t n) {
  const FixedPair p = given;  // results cannot change it
  if constexpr (sizeof(T) == 1) {
    const auto half = static_cast<int32_t>(std::ldexp(1.0, p.shift - 1) + static_cast<double>(p.constant));
    if (step_a == 1 && step_b == 1) {
      for (int64_t i = 0; i < n; ++i) y[i] = pair_result<Op>(p, half, a[i], b[i]);
    } else if (step_b == 0) {
      const T second = *b;
      for (int64_t i = 0; i < n; ++i) y[i] = pair_result<Op>(p, half, a[i * step_a], second);
    } else {
      for (int64_t i = 0; i < n; ++i) y[i] = pair_result<Op>(p, half, a[i * step_a], b[i * step_b]);
    }
  } else if constexpr (Op != PairOp::multiply) {
    int64_t i = 0;
    pair_reals<Op>(Reals(), p, a, step_a, b, step_b, y, n, &i);
    pair_reals<Op>(OneReal(), p, a, step_a, b, step_b, y, n, &i);
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

void hard_swish_bytes_here(const SwishRow& given, const int32_t* __restrict sums, uint8_t* __restrict y,
                           int64_t n) {
  const SwishRow s = given;  // results cannot change it
  for (int64_t i = 0; i < n; ++i) {
    const int32_t sum = std::min(std::max(sums[i], s.low[i]), s.high[i]);
    const int32_t near = std::min(std::max(sums[i], s.shut[i]), s.open[i]);
    const int32_t x = ((sum << s.left[i]) >> s.right[i]) | 1;
    const int32_t t = ((near << s.fine_left[i]) >> s.fine_right[i]) | s.odd[i];
    const int32_t slope = (t * s.slope[i] + s.round[i]) >> 12;
    const int32_t gate = std::min(std::max(slope + s.middle[i], 0), s.most[i]);
    const int32_t q = ((x * gate + (1 << 15)) >> 16) + s.zero;
    y[i] = static_cast<uint8_t>(std::min(std::max(q, 0), 255));
  }
}

// Results of exponents: factor is the output's steps of 1 over the sum, `more` is added before they are cut.
template <typename D, typename U>
void softmax_results(D d, const uint32_t* e, int64_t n, double factor, double more, const RealCode& code,
                     U* y, int64_t* at) {
  const hn::Rebind<int32_t, D> di;
  const auto zero = hn::Set(d, -static_cast<double>(code.offset)), scale = hn::Set(d, factor);
  const double min = code.min, max = code.max;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = *at;
  for (; i + lanes <= n; i += lanes) {
    const auto x = hn::PromoteTo(d, hn::LoadU(di, reinterpret_cast<const int32_t*>(e) + i));
    const auto q = hn::Floor(hn::Add(hn::Mul(x, scale), hn::Set(d, more)));
    store_reals(d, hn::Add(q, zero), min, max, y + i);
  }
  *at = i;
}

// 1 / x as the device's vector unit has it: Newton's steps in whole numbers, each cut, stay at the first of
// 16 bits or less that they do not change.
double cut_reciprocal(uint64_t x) {
  const int bits = std::bit_width(x), places = std::min(16, bits - 1);
  uint64_t y = uint64_t{1} << (places - 1);
  for (int step = 0; step < 5; ++step) y = y * ((uint64_t{1} << bits) - (x * y >> places)) >> (bits - 1);
  return std::ldexp(static_cast<double>(y), 1 - bits - places);
}

// What exponents are multiplied by, and what is added before results are cut.
struct SoftmaxFactor {
  double scale, more;
};
SoftmaxFactor softmax_factor(SoftmaxRow::Reciprocal way, uint64_t sum, double scale) {
  if (way == SoftmaxRow::Reciprocal::bytes) {
    const auto steps = static_cast<uint64_t>(std::min(scale, 256.0) * 65536);  // made-up scales may be huge
    const uint64_t x = std::max<uint64_t>(sum * steps >> 8, 2);
    return {cut_reciprocal(x) * 256, x < 512 ? 0 : 0.5};
  }
  if (way == SoftmaxRow::Reciprocal::words) {
    int exponent = 0;
    const auto mantissa = static_cast<uint64_t>(std::frexp(scale, &exponent) * 65536);
    const uint64_t x = std::max<uint64_t>(sum * mantissa >> 16, 2);
    return {std::ldexp(cut_reciprocal(x), -exponent), 0};
  }
  return {1 / scale / static_cast<double>(sum), 0.5};
}

template <typename D, typename T, typename S>
void slopes(D d, const SlopeRow& s, const T* x, int64_t step_x, const S* slope, int64_t step_slope, T* y,
            int64_t n, int64_t* at) {
  const auto one_x = hn::Set(d, static_cast<double>(*x + s.from.offset)),
             one_slope = hn::Set(d, static_cast<double>(*slope + s.by.offset));
  const auto scale_x = hn::Set(d, s.from.scale), scale_slope = hn::Set(d, s.by.scale),
             scale_y = hn::Set(d, s.to.scale);
  const auto zero = hn::Zero(d), half = hn::Set(d, 0.5), one = hn::Set(d, 1.0);
  const auto offset = hn::Set(d, static_cast<double>(s.to.offset));
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = *at;
  for (; i + lanes <= n; i += lanes) {
    const auto u = hn::Mul(step_x ? load_reals(d, x + i, s.from.offset) : one_x, scale_x);
    const auto v = hn::Mul(step_slope ? load_reals(d, slope + i, s.by.offset) : one_slope, scale_slope);
    const auto real = hn::IfThenElse(hn::Lt(u, zero), hn::Mul(u, v), u);
    const auto steps = hn::Div(real, scale_y), size = hn::Abs(steps), whole = hn::Trunc(size);
    const auto away = hn::Ge(hn::Sub(size, whole), half);
    const auto rounded = hn::CopySign(hn::IfThenElse(away, hn::Add(whole, one), whole), steps);
    store_reals(d, hn::Sub(rounded, offset), s.to.min, s.to.max, y + i);
  }
  *at = i;
}
void slope_row_here(const SlopeRow& s, const void* x, int64_t step_x, const void* slope, int64_t step_slope,
                    void* y, int64_t n) {
  with_stored(s.stored, [&](auto t) {
    using T = decltype(t);
    with_stored(s.slope, [&](auto u) {
      using S = decltype(u);
      int64_t i = 0;
      slopes(Reals(), s, static_cast<const T*>(x), step_x, static_cast<const S*>(slope), step_slope,
             static_cast<T*>(y), n, &i);
      slopes(OneReal(), s, static_cast<const T*>(x), step_x, static_cast<const S*>(slope), step_slope,
             static_cast<T*>(y), n, &i);
    });
  });
}

void kink_row_here(const KinkRow& given, const uint16_t* __restrict x, const int32_t* __restrict below,
                   int64_t step, uint16_t* __restrict y, int64_t n) {
  const KinkRow k = given;  // results cannot change it
  const auto zero = static_cast<uint32_t>(k.zero) << k.shift;
  const auto result = [&](int32_t v, int32_t slope) {
    const auto sum = static_cast<int32_t>(static_cast<uint32_t>(v * (v < 0 ? slope : k.above)) + zero);
    const int32_t q = ((sum >> (k.shift - 1)) + 1) >> 1;
    return static_cast<uint16_t>(std::min(std::max(q, 0), 65535));
  };
  if (step == 0) {
    const int32_t slope = *below;
    for (int64_t i = 0; i < n; ++i) y[i] = result(x[i] + k.offset, slope);
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = result(x[i] + k.offset, below[i]);
  }
}

template <typename D, typename T>
void sum_slopes(D d, const SumSlopeRow& s, const int32_t* sums, T* y, int64_t n, int64_t* at) {
  const hn::Rebind<int32_t, D> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto half = hn::Set(d, s.half), zero = hn::Set(d, s.zero), one = hn::Set(d, 1.0);
  const auto most = hn::Set(d, 0x1p30);
  int64_t i = *at;
  for (; i + lanes <= n; i += lanes) {
    const auto sum = hn::PromoteTo(d, hn::LoadU(di, sums + i));
    const auto below = hn::Lt(sum, hn::Zero(d));
    const auto own = [&](const double* const* of) {
      return hn::IfThenElse(below, hn::LoadU(d, of[0] + i), hn::LoadU(d, of[1] + i));
    };
    const auto whole = hn::Max(hn::Min(hn::Floor(hn::Mul(sum, own(s.up))), most), hn::Neg(most));
    const auto t = hn::Add(hn::Add(whole, whole), one);
    const auto q = hn::Floor(hn::Add(hn::Mul(t, own(s.factor)), half));
    store_reals(d, hn::Add(q, zero), 0, sizeof(T) == 1 ? 255 : 65535, y + i);
  }
  *at = i;
}
void slope_sums_here(const SumSlopeRow& s, const int32_t* sums, Stored stored, void* y, int64_t n) {
  const auto all = [&](auto* to) {
    int64_t i = 0;
    sum_slopes(Reals(), s, sums, to, n, &i);
    sum_slopes(OneReal(), s, sums, to, n, &i);
  };
  is_wide(stored) ? all(static_cast<uint16_t*>(y)) : all(static_cast<uint8_t*>(y));
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
    const SoftmaxFactor f = softmax_factor(s.reciprocal, sum, s.code.scale);
    with_stored(s.out, [&](auto u) {
      using U = decltype(u);
      int64_t i = 0;
      softmax_results(Reals(), scratch, n, f.scale, f.more, s.code, static_cast<U*>(y), &i);
      softmax_results(OneReal(), scratch, n, f.scale, f.more, s.code, static_cast<U*>(y), &i);
    });
  });
}

}  // namespace sixfold::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sixfold::cpu {

HWY_EXPORT(fixed_pair_here);
HWY_EXPORT(clamp_row_here);
HWY_EXPORT(hard_swish_bytes_here);
HWY_EXPORT(slope_row_here);
HWY_EXPORT(kink_row_here);
HWY_EXPORT(slope_sums_here);
HWY_EXPORT(softmax_row_here);

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
void hard_swish_bytes(const SwishRow& s, const int32_t* sums, uint8_t* y, int64_t n) {
  quant_kernels();
  HWY_DYNAMIC_DISPATCH(hard_swish_bytes_here)(s, sums, y, n);
}
void slope_row(const SlopeRow& s, const void* x, int64_t step_x, const void* slope, int64_t step_slope,
               void* y, int64_t n) {
  quant_kernels();
  HWY_DYNAMIC_DISPATCH(slope_row_here)(s, x, step_x, slope, step_slope, y, n);
}
void kink_row(const KinkRow& row, const uint16_t* x, const int32_t* below, int64_t step, uint16_t* y,
              int64_t n) {
  quant_kernels();
  HWY_DYNAMIC_DISPATCH(kink_row_here)(row, x, below, step, y, n);
}
void slope_sums(const SumSlopeRow& row, const int32_t* sums, Stored stored, void* y, int64_t n) {
  quant_kernels();
  HWY_DYNAMIC_DISPATCH(slope_sums_here)(row, sums, stored, y, n);
}
void softmax_row(const SoftmaxRow& s, const void* x, void* y, int64_t n, uint32_t* scratch) {
  quant_kernels();
  HWY_DYNAMIC_DISPATCH(softmax_row_here)(s, x, y, n, scratch);
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
