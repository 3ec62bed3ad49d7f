// AVX2. Bytes are multiplied by vpmaddubsw, unsigned by signed, whose sums of two products saturate at 16
// bits: with activations shifted to [-128, 127], |x| times the weight with x's sign stays below that, if no
// weight is -128. Blocks that have one go through 16-bit products.
#if defined(__x86_64__)
#include <hwy/base.h>
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "sixfold/cpu/quant_kernels.h"

// After the headers: what they define stays code for any CPU.
HWY_PUSH_ATTRIBUTES("avx2")

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
    // Factors below 1/2: in doubles, which hold the product; adding 1/2 cannot round across a whole number.
    const __m256i right = load(c.right + at);
    const bool small = _mm256_movemask_epi8(_mm256_cmpgt_epi32(_mm256_set1_epi32(16), right)) == 0;
    if (out.rounding != Rounding::vector || out.lefts || !small) {
      alignas(32) int32_t lanes[8];
      _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), sum);
      for (int64_t i = 0; i < 8; ++i) lanes[i] = requantize(lanes[i], c, at + i, out);
      return _mm256_load_si256(reinterpret_cast<const __m256i*>(lanes));
    }
    sum = _mm256_max_epi32(sum, _mm256_set1_epi32(-INT32_MAX));
    // 2^-right, put together from its exponent.
    const __m256i exponent = _mm256_sub_epi32(_mm256_set1_epi32(1023), right);
    __m128i parts[2];
    for (int h = 0; h < 2; ++h) {
      const auto half_of = [h](__m256i x) {
        return h ? _mm256_extracti128_si256(x, 1) : _mm256_castsi256_si128(x);
      };
      const __m256d unit =
          _mm256_castsi256_pd(_mm256_slli_epi64(_mm256_cvtepi32_epi64(half_of(exponent)), 52));
      const __m256d product = _mm256_mul_pd(_mm256_cvtepi32_pd(half_of(sum)), _mm256_cvtepi32_pd(half_of(f)));
      const __m256d x = _mm256_add_pd(_mm256_mul_pd(product, unit), _mm256_set1_pd(0.5));
      parts[h] = _mm256_cvttpd_epi32(_mm256_floor_pd(x));
    }
    q = _mm256_inserti128_si256(_mm256_castsi128_si256(parts[0]), parts[1], 1);
  }
  return clamp(_mm256_add_epi32(q, _mm256_set1_epi32(out.zero_point)), out.min, out.max);
}

// Sums that still lack their bias; high null: 8-bit activations.
inline __m256i joined(__m256i low, const __m256i* high, const QuantOutput& out) {
  if (!high) return low;
  return out.rounding == Rounding::vector ? _mm256_add_epi32(_mm256_slli_epi32(*high, 8), low)
                                          : _mm256_add_epi32(*high, _mm256_srai_epi32(low, 8));
}

// matrix8 to 8 bits without shifts to the left: cut at 2^14 rather than kLimit8, which such results cannot
// tell apart, shifted sums are 16-bit numbers.
inline __m256i scaled8(__m256i sum, const QuantChannels& c, int64_t at) {
  const __m256i f = load(c.multiplier + at), once = _mm256_add_epi32(f, _mm256_set1_epi32(1 << 15));
  const __m256i x = clamp(_mm256_srav_epi32(_mm256_add_epi32(sum, load(c.bias + at)), load(c.right + at)),
                          -(1 << 14), (1 << 14) - 1);
  return _mm256_srai_epi32(_mm256_add_epi32(_mm256_madd_epi16(_mm256_add_epi32(x, x), f), once), 16);
}

// Up to two blocks of bytes: sums of four halves.
inline void put_bytes(std::byte* to, int64_t n, const __m256i* sums, int blocks, const QuantChannels* c,
                      const QuantOutput& out) {
  const __m256i zero_point = _mm256_set1_epi16(static_cast<int16_t>(out.zero_point));
  __m256i words[2];
  for (int b = 0; b < blocks; ++b)
    words[b] = _mm256_adds_epi16(
        _mm256_packs_epi32(scaled8(sums[2 * b], c[b], 0), scaled8(sums[2 * b + 1], c[b], 8)), zero_point);
  const __m256i packed = _mm256_packus_epi16(words[0], words[blocks - 1]);
  // Packing works within 128-bit lanes.
  __m256i bytes = _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  bytes = _mm256_max_epu8(bytes, _mm256_set1_epi8(static_cast<char>(out.min)));
  bytes = _mm256_min_epu8(bytes, _mm256_set1_epi8(static_cast<char>(out.max)));
  if (n >= 2 * kQuantBlock) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), bytes);
  } else if (n == kQuantBlock) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(bytes));
  } else {
    alignas(32) std::byte some[2 * kQuantBlock];
    _mm256_store_si256(reinterpret_cast<__m256i*>(some), bytes);
    std::memcpy(to, some, static_cast<size_t>(n));
  }
}

// Results of a block, from sums of its halves. n: channels that there are.
void put_block(std::byte* to, int64_t n, const __m256i* low, const __m256i* high, const QuantChannels& c,
               const QuantOutput& out) {
  __m256i q[2];
  for (int half = 0; half < 2; ++half)
    q[half] = convert(
        _mm256_add_epi32(joined(low[half], high ? high + half : nullptr, out), load(c.bias + 8 * half)), c,
        8 * half, out);
  alignas(32) std::byte some[4 * kQuantBlock];
  auto* place = reinterpret_cast<__m256i*>(n < kQuantBlock ? some : to);
  size_t size = 4;
  if (out.rounding == Rounding::none) {
    _mm256_storeu_si256(place, q[0]);
    _mm256_storeu_si256(place + 1, q[1]);
  } else {  // the low halves of numbers, without saturation: signed ones are stored as well
    const __m256i low_half = _mm256_set1_epi32(out.wide ? 0xFFFF : 0xFF);
    const __m256i words = _mm256_permute4x64_epi64(
        _mm256_packus_epi32(_mm256_and_si256(q[0], low_half), _mm256_and_si256(q[1], low_half)), 0xD8);
    if (out.wide) {
      size = 2;
      _mm256_storeu_si256(place, words);
    } else {
      size = 1;
      const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(words, words), 0xD8);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(place), _mm256_castsi256_si128(bytes));
    }
  }
  if (n < kQuantBlock) std::memcpy(to, some, size * static_cast<size_t>(n));
}

// Blocks of one row from channel `first` on; n: channels that there are.
inline void put(std::byte* to, int64_t first, int64_t n, const __m256i* low, const __m256i* high, int blocks,
                const QuantChannels* c, const QuantOutput& out) {
  if (!high && out.rounding == Rounding::matrix8 && !out.lefts && !out.wide && out.min >= 0)
    return put_bytes(to + first, n, low, blocks, c, out);
  const int64_t size = out.rounding == Rounding::none ? 4 : out.wide ? 2 : 1;
  for (int b = 0; b < blocks; ++b)
    put_block(to + (first + b * kQuantBlock) * size, std::min(kQuantBlock, n - b * kQuantBlock), low + 2 * b,
              high ? high + 2 * b : nullptr, c[b], out);
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
void sums(const QuantTile& t, int64_t plane, __m256i (*out)[2 * Blocks]) {
  const int64_t step = t.segments * t.groups * kCell;
  int64_t steps[2 * Blocks];
  __m256i acc[Rows][2 * Blocks];  // apart from `out`: what others have the address of is kept in memory
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
  for (int r = 0; r < Rows; ++r)
    for (int h = 0; h < 2 * Blocks; ++h) out[r][h] = acc[r][h];
}

template <typename Kind, int Rows, int Blocks>
void tile(const QuantTile& t) {
  __m256i low[Rows][2 * Blocks], high[Rows][2 * Blocks];
  sums<Kind, Rows, Blocks>(t, 0, low);
  if (t.high) sums<Kind, Rows, Blocks>(t, t.high, high);
  for (int r = 0; r < Rows; ++r)
    put(t.results[r], 0, t.count, low[r], t.high ? high[r] : nullptr, Blocks, t.channels, *t.out);
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
          1, t.channels + block, *t.out);
    }
  }
}

}  // namespace

extern const QuantKernels kAvx2QuantKernels = {"avx2", 2, 2, 2, 2, product, depthwise};

}  // namespace sixfold::cpu
HWY_POP_ATTRIBUTES
#endif
