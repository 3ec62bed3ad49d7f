// What the AVX-512 kernels share. Included where the compiler's target is set, by them alone.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "sixfold/cpu/quant_kernels.h"

namespace sixfold::cpu {
namespace {

constexpr int64_t kCell = kQuantBlock * kQuantGroup;

inline __m512i broadcast4(const uint8_t* p) {
  int32_t x;
  std::memcpy(&x, p, 4);
  return _mm512_set1_epi32(x);
}

inline __m512i clamp(__m512i x, __m512i low, __m512i high) {
  return _mm512_min_epi32(_mm512_max_epi32(x, low), high);
}

// (x * f + half) >> shift of each lane, through 64 bits.
inline __m512i scale64(__m512i x, __m512i f, __m512i half_even, __m512i half_odd, __m512i shift_even,
                       __m512i shift_odd) {
  const __m512i even = _mm512_add_epi64(_mm512_mul_epi32(x, f), half_even);
  const __m512i odd =
      _mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64(x, 32), _mm512_srli_epi64(f, 32)), half_odd);
  const __m512i a = _mm512_srav_epi64(even, shift_even), b = _mm512_srav_epi64(odd, shift_odd);
  // Results of any size: saturated, so that the clamp that follows sees the right side.
  const __m512i low = _mm512_castsi256_si512(_mm512_cvtsepi64_epi32(a)),
                high = _mm512_castsi256_si512(_mm512_cvtsepi64_epi32(b));
  return _mm512_or_si512(_mm512_cvtepu32_epi64(_mm512_castsi512_si256(low)),
                         _mm512_slli_epi64(_mm512_cvtepu32_epi64(_mm512_castsi512_si256(high)), 32));
}

// matrix16: ((2 t + 1) f + 2^29) >> 30 of shifted sums t, and the zero point. With all of it times 4, results
// are the high halves of 64-bit numbers. Sums are cut before they are shifted either way, by kLimit16 as it
// is there.
struct Scale16 {
  __m512i least, most, left, right, even, odd, even_half, odd_half;

  Scale16() = default;
  Scale16(__m512i f, __m512i to_left, __m512i to_right, int32_t zero_point) : left(to_left), right(to_right) {
    const __m512i limit = _mm512_set1_epi32(kLimit16), one = _mm512_set1_epi32(1);
    const __m512i shifted = _mm512_srav_epi32(limit, left);
    const __mmask16 lefts = _mm512_test_epi32_mask(left, left);
    // From 5 bits to the right on no sum is beyond the limit.
    const __mmask16 all = _mm512_cmp_epi32_mask(right, _mm512_set1_epi32(5), _MM_CMPINT_NLT) & ~lefts;
    most = _mm512_sub_epi32(_mm512_sllv_epi32(_mm512_add_epi32(limit, one), right), one);
    most = _mm512_mask_mov_epi32(most, lefts, shifted);
    most = _mm512_mask_mov_epi32(most, all, _mm512_set1_epi32(INT32_MAX));
    least = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_sllv_epi32(limit, right));
    least = _mm512_mask_sub_epi32(least, lefts, _mm512_setzero_si512(), shifted);
    least = _mm512_mask_mov_epi32(least, all, _mm512_set1_epi32(INT32_MIN));
    const __m512i rest = _mm512_set1_epi64((int64_t{zero_point} << 32) + (int64_t{1} << 31));
    const __m512i low = _mm512_and_si512(f, _mm512_set1_epi64(0xFFFFFFFF)), high = _mm512_srli_epi64(f, 32);
    even = _mm512_slli_epi64(low, 3);
    odd = _mm512_slli_epi64(high, 3);
    even_half = _mm512_add_epi64(_mm512_slli_epi64(low, 2), rest);
    odd_half = _mm512_add_epi64(_mm512_slli_epi64(high, 2), rest);
  }
  __m512i operator()(__m512i sum) const {
    const __m512i t = _mm512_srav_epi32(_mm512_sllv_epi32(clamp(sum, least, most), left), right);
    const __m512i u = _mm512_add_epi64(_mm512_mul_epi32(t, even), even_half);
    const __m512i v =
        _mm512_add_epi64(_mm512_mul_epi32(_mm512_shuffle_epi32(t, _MM_PERM_DDBB), odd), odd_half);
    return _mm512_mask_blend_epi32(0xAAAA, _mm512_shuffle_epi32(u, _MM_PERM_DDBB), v);
  }
};

// A block's results for one row, from its low and high sums.
struct Epilogue {
  const QuantOutput& out;
  __m512i zero_point, min, max;

  explicit Epilogue(const QuantOutput& o)
      : out(o),
        zero_point(_mm512_set1_epi32(o.zero_point)),
        min(_mm512_set1_epi32(o.min)),
        max(_mm512_set1_epi32(o.max)) {}

  __m512i shifted(__m512i sum, const QuantChannels& c, int32_t limit) const {
    const __m512i most = _mm512_set1_epi32(limit);
    if (out.lefts) {
      const __m512i left = _mm512_load_si512(c.left), bound = _mm512_srav_epi32(most, left);
      const __mmask16 some = _mm512_test_epi32_mask(left, left);
      sum = _mm512_mask_min_epi32(sum, some, sum, bound);
      sum = _mm512_mask_max_epi32(sum, some, sum, _mm512_sub_epi32(_mm512_setzero_si512(), bound));
      sum = _mm512_sllv_epi32(sum, left);
    }
    sum = _mm512_srav_epi32(sum, _mm512_load_si512(c.right));
    return clamp(sum, _mm512_set1_epi32(-limit), most);
  }

  __m512i convert(__m512i sum, const QuantChannels& c) const {
    const __m512i f = _mm512_load_si512(c.multiplier);
    __m512i q;
    if (out.rounding == Rounding::matrix8) {
      const __m512i t = shifted(sum, c, kLimit8);
      // (2 t + 1) f
      const __m512i product = _mm512_add_epi32(_mm512_mullo_epi32(_mm512_add_epi32(t, t), f), f);
      q = _mm512_srai_epi32(_mm512_add_epi32(product, _mm512_set1_epi32(1 << 15)), 16);
    } else if (out.rounding == Rounding::matrix16) {
      const __m512i t = shifted(sum, c, kLimit16);
      const __m512i odd = _mm512_add_epi32(_mm512_add_epi32(t, t), _mm512_set1_epi32(1));
      const __m512i half = _mm512_set1_epi64(1 << 29);
      const __m512i a = _mm512_add_epi64(_mm512_mul_epi32(odd, f), half);
      const __m512i b =
          _mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64(odd, 32), _mm512_srli_epi64(f, 32)), half);
      q = _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(a, 30), _mm512_slli_epi64(b, 2));
    } else {
      const __m512i left = _mm512_load_si512(c.left), right = _mm512_load_si512(c.right);
      if (out.lefts) sum = _mm512_sllv_epi32(sum, left);
      sum = _mm512_max_epi32(sum, _mm512_set1_epi32(-INT32_MAX));
      const __m512i even = _mm512_and_si512(right, _mm512_set1_epi64(0xFFFFFFFF)),
                    odd = _mm512_srli_epi64(right, 32);
      const __m512i half = _mm512_set1_epi64(1), one = _mm512_set1_epi64(1);
      q = scale64(sum, f, _mm512_sllv_epi64(half, _mm512_sub_epi64(even, one)),
                  _mm512_sllv_epi64(half, _mm512_sub_epi64(odd, one)), even, odd);
      // Saturated numbers must not wrap when the zero point comes in.
      q = clamp(q, _mm512_set1_epi32(-(1 << 30)), _mm512_set1_epi32(1 << 30));
    }
    return clamp(_mm512_add_epi32(q, zero_point), min, max);
  }

  // n: channels of this block that there are.
  void put(std::byte* to, int64_t channel, int64_t n, __m512i low, __m512i high, bool wide,
           const QuantChannels& c) const {
    __m512i sum = low;
    if (wide)
      sum = out.rounding == Rounding::vector ? _mm512_add_epi32(_mm512_slli_epi32(high, 8), low)
                                             : _mm512_add_epi32(high, _mm512_srai_epi32(low, 8));
    sum = _mm512_add_epi32(sum, _mm512_load_si512(c.bias));
    const auto mask = static_cast<__mmask16>(n >= kQuantBlock ? 0xFFFF : (1 << n) - 1);
    if (out.rounding == Rounding::none) {
      _mm512_mask_storeu_epi32(reinterpret_cast<int32_t*>(to) + channel, mask, sum);
      return;
    }
    sum = convert(sum, c);
    if (out.wide)
      _mm256_mask_storeu_epi16(reinterpret_cast<uint16_t*>(to) + channel, mask, _mm512_cvtepi32_epi16(sum));
    else
      _mm_mask_storeu_epi8(reinterpret_cast<uint8_t*>(to) + channel, mask, _mm512_cvtepi32_epi8(sum));
  }
};

}  // namespace
}  // namespace sixfold::cpu
