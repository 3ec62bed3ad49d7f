// AVX2. Bytes are multiplied by vpmaddubsw, unsigned by signed, whose sums of two products saturate at 16
// bits: with activations shifted to [-128, 127], |x| times the weight with x's sign stays below that, if no
// weight is -128. Blocks that have one go through 16-bit products.
#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "sixfold/cpu/quant_kernels.h"

// After the headers: what they define stays code for any CPU.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif

namespace sixfold::cpu {
namespace {

constexpr int64_t kCell = kQuantBlock * kQuantGroup;

inline __m256i load(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline __m256i broadcast4(const uint8_t* p) {
  int32_t x;
  std::memcpy(&x, p, 4);
  return _mm256_set1_epi32(x);
}
inline __m256i clamp(__m256i x, int32_t low, int32_t high) {
  return _mm256_min_epi32(_mm256_max_epi32(x, _mm256_set1_epi32(low)), _mm256_set1_epi32(high));
}

__m256i shifted(__m256i sum, const QuantChannels& c, int64_t at, const QuantOutput& out, int32_t limit) {
  if (out.lefts) {
    const __m256i left = load(c.left + at), bound = _mm256_srav_epi32(_mm256_set1_epi32(limit), left);
    const __m256i cut =
        _mm256_max_epi32(_mm256_min_epi32(sum, bound), _mm256_sub_epi32(_mm256_setzero_si256(), bound));
    sum = _mm256_blendv_epi8(cut, sum, _mm256_cmpeq_epi32(left, _mm256_setzero_si256()));
    sum = _mm256_sllv_epi32(sum, left);
  }
  return clamp(_mm256_srav_epi32(sum, load(c.right + at)), -limit, limit);
}

// Eight sums, bias included, of channels `at` on.
__m256i convert(__m256i sum, const QuantChannels& c, int64_t at, const QuantOutput& out) {
  const __m256i f = load(c.multiplier + at);
  __m256i q;
  if (out.rounding == Rounding::matrix8) {
    const __m256i t = shifted(sum, c, at, out, kLimit8);
    const __m256i product = _mm256_add_epi32(_mm256_mullo_epi32(_mm256_add_epi32(t, t), f), f);
    q = _mm256_srai_epi32(_mm256_add_epi32(product, _mm256_set1_epi32(1 << 15)), 16);
  } else if (out.rounding == Rounding::matrix16) {
    const __m256i t = shifted(sum, c, at, out, kLimit16);
    const __m256i odd = _mm256_add_epi32(_mm256_add_epi32(t, t), _mm256_set1_epi32(1));
    const __m256i half = _mm256_set1_epi64x(1 << 29);
    const __m256i a = _mm256_add_epi64(_mm256_mul_epi32(odd, f), half);
    const __m256i b =
        _mm256_add_epi64(_mm256_mul_epi32(_mm256_srli_epi64(odd, 32), _mm256_srli_epi64(f, 32)), half);
    q = _mm256_blend_epi32(_mm256_srli_epi64(a, 30), _mm256_slli_epi64(b, 2), 0xAA);
  } else {
    alignas(32) int32_t lanes[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), sum);
    for (int64_t i = 0; i < 8; ++i) lanes[i] = requantize(lanes[i], c, at + i, out);
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(lanes));
  }
  return clamp(_mm256_add_epi32(q, _mm256_set1_epi32(out.zero_point)), out.min, out.max);
}

// Results of a block, from sums of its halves; high null: 8-bit activations. n: channels that there are.
void put(std::byte* to, int64_t channel, int64_t n, const __m256i* low, const __m256i* high,
         const QuantChannels& c, const QuantOutput& out) {
  alignas(32) int32_t q[kQuantBlock];
  for (int half = 0; half < 2; ++half) {
    __m256i sum = low[half];
    if (high)
      sum = out.rounding == Rounding::vector ? _mm256_add_epi32(_mm256_slli_epi32(high[half], 8), sum)
                                             : _mm256_add_epi32(high[half], _mm256_srai_epi32(sum, 8));
    sum = convert(_mm256_add_epi32(sum, load(c.bias + 8 * half)), c, 8 * half, out);
    _mm256_store_si256(reinterpret_cast<__m256i*>(q + 8 * half), sum);
  }
  if (out.rounding == Rounding::none) {
    std::memcpy(reinterpret_cast<int32_t*>(to) + channel, q, sizeof(int32_t) * static_cast<size_t>(n));
  } else if (out.wide) {
    uint16_t narrow[kQuantBlock];
    for (int64_t i = 0; i < kQuantBlock; ++i) narrow[i] = static_cast<uint16_t>(q[i]);
    std::memcpy(reinterpret_cast<uint16_t*>(to) + channel, narrow, 2 * static_cast<size_t>(n));
  } else {
    uint8_t narrow[kQuantBlock];
    for (int64_t i = 0; i < kQuantBlock; ++i) narrow[i] = static_cast<uint8_t>(q[i]);
    std::memcpy(reinterpret_cast<uint8_t*>(to) + channel, narrow, static_cast<size_t>(n));
  }
}

struct Bytes {  // |x| and the weights with x's sign
  static __m256i first(const QuantChannels& c, int half) {
    return _mm256_slli_epi32(load(c.sum + 8 * half), 7);
  }
  template <int Rows, int Halves>
  static void add(const uint8_t* const* x, const int8_t* w, const int64_t* steps, __m256i (*acc)[Halves]) {
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i weights[Halves];
    for (int h = 0; h < Halves; ++h) weights[h] = load(w + steps[h]);
    for (int r = 0; r < Rows; ++r) {
      const __m256i s = _mm256_xor_si256(broadcast4(x[r]), _mm256_set1_epi8(-128)), a = _mm256_abs_epi8(s);
      for (int h = 0; h < Halves; ++h) {
        const __m256i pairs = _mm256_maddubs_epi16(a, _mm256_sign_epi8(weights[h], s));
        acc[r][h] = _mm256_add_epi32(acc[r][h], _mm256_madd_epi16(pairs, ones));
      }
    }
  }
};

struct Words {  // inputs 0 and 2, then 1 and 3, as 16-bit numbers
  static __m256i first(const QuantChannels&, int) { return _mm256_setzero_si256(); }
  template <int Rows, int Halves>
  static void add(const uint8_t* const* x, const int8_t* w, const int64_t* steps, __m256i (*acc)[Halves]) {
    for (int h = 0; h < Halves; ++h) {
      const __m256i weights = load(w + steps[h]);
      const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(weights, 8), 8),
                    odd = _mm256_srai_epi16(weights, 8);
      for (int r = 0; r < Rows; ++r) {
        const __m256i a = broadcast4(x[r]);
        const __m256i sum =
            _mm256_add_epi32(_mm256_madd_epi16(_mm256_and_si256(a, _mm256_set1_epi16(255)), even),
                             _mm256_madd_epi16(_mm256_srli_epi16(a, 8), odd));
        acc[r][h] = _mm256_add_epi32(acc[r][h], sum);
      }
    }
  }
};

template <typename Kind, int Rows, int Blocks>
void sums(const QuantTile& t, int64_t plane, __m256i (*acc)[2 * Blocks]) {
  const int64_t step = t.segments * t.groups * kCell;
  int64_t steps[2 * Blocks];
  for (int h = 0; h < 2 * Blocks; ++h) {
    steps[h] = h / 2 * step + h % 2 * 32;
    for (int r = 0; r < Rows; ++r) acc[r][h] = Kind::first(t.channels[h / 2], h % 2);
  }
  const int8_t* w = t.weights;
  for (int64_t s = 0; s < t.segments; ++s) {
    const uint8_t* x[Rows];
    for (int r = 0; r < Rows; ++r) x[r] = t.rows[s * kQuantRows + r] + plane;
    for (int64_t g = 0; g < t.groups; ++g, w += kCell) {
      Kind::template add<Rows, 2 * Blocks>(x, w, steps, acc);
      for (int r = 0; r < Rows; ++r) x[r] += kQuantGroup;
    }
  }
}

template <typename Kind, int Rows, int Blocks>
void tile(const QuantTile& t) {
  __m256i low[Rows][2 * Blocks], high[Rows][2 * Blocks];
  sums<Kind, Rows, Blocks>(t, 0, low);
  if (t.high) sums<Kind, Rows, Blocks>(t, t.high, high);
  for (int r = 0; r < Rows; ++r)
    for (int b = 0; b < Blocks; ++b)
      put(t.results[r], b * kQuantBlock, std::min<int64_t>(kQuantBlock, t.count - b * kQuantBlock),
          &low[r][2 * b], t.high ? &high[r][2 * b] : nullptr, t.channels[b], *t.out);
}

using TileFunction = void (*)(const QuantTile&);
template <typename Kind>
constexpr TileFunction kTiles[2][2] = {{tile<Kind, 1, 1>, tile<Kind, 1, 2>},
                                       {tile<Kind, 2, 1>, tile<Kind, 2, 2>}};

void product(const QuantTile& t, int64_t row_count) {
  const int64_t blocks = (t.count + kQuantBlock - 1) / kQuantBlock;
  bool lowest = false;
  for (int64_t b = 0; b < blocks; ++b) lowest |= t.channels[b].flags[kHasLowest] != 0;
  (lowest ? kTiles<Words> : kTiles<Bytes>)[row_count - 1][blocks - 1](t);
}

constexpr int64_t kMostGroups = 16;

// Four taps of a block's channels: pairs (0, 2) and (1, 3), as the weights' even and odd bytes.
void tap_sums(const QuantTaps& t, int64_t r, int64_t first, int64_t plane, const __m256i (*weights)[4],
              __m256i* acc) {
  const int64_t n = std::min<int64_t>(kQuantBlock, t.count - first);
  acc[0] = acc[1] = _mm256_setzero_si256();
  for (int64_t g = 0; g < t.taps / 4; ++g) {
    __m128i x[4];
    for (int k = 0; k < 4; ++k) {
      const uint8_t* from = t.rows[(4 * g + k) * t.row_step + r] + plane + first;
      uint8_t some[kQuantBlock] = {};
      if (n < kQuantBlock)
        from = static_cast<const uint8_t*>(std::memcpy(some, from, static_cast<size_t>(n)));
      x[k] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    }
    for (int p = 0; p < 2; ++p) {
      const __m256i low = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(x[p], x[p + 2]));
      const __m256i high = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(x[p], x[p + 2]));
      acc[0] = _mm256_add_epi32(acc[0], _mm256_madd_epi16(low, weights[g][2 * p]));
      acc[1] = _mm256_add_epi32(acc[1], _mm256_madd_epi16(high, weights[g][2 * p + 1]));
    }
  }
}

void depthwise(const QuantTaps& t) {
  const int64_t groups = t.taps / 4;
  if (groups > kMostGroups) return kPlainQuantKernels.depthwise(t);
  for (int64_t first = 0; first < t.count; first += kQuantBlock) {
    const int64_t block = first / kQuantBlock;
    __m256i weights[kMostGroups][4];
    for (int64_t g = 0; g < groups; ++g)
      for (int h = 0; h < 2; ++h) {
        const __m256i w = load(t.weights + (block * groups + g) * kCell + 32 * h);
        weights[g][h] = _mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8);
        weights[g][2 + h] = _mm256_srai_epi16(w, 8);
      }
    for (int64_t r = 0; r < t.row_count; ++r) {
      __m256i low[2], high[2];
      tap_sums(t, r, first, 0, weights, low);
      if (t.high) tap_sums(t, r, first, t.high, weights, high);
      put(t.results[r], first, std::min<int64_t>(kQuantBlock, t.count - first), low, t.high ? high : nullptr,
          t.channels[block], *t.out);
    }
  }
}

}  // namespace

extern const QuantKernels kAvx2QuantKernels = {"avx2", 2, 2, 2, 2, product, depthwise};

}  // namespace sixfold::cpu
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
