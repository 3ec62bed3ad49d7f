// Depthwise filters with AVX-512 VNNI, 64 channels at a time. Four taps of a channel must lie in one 32-bit
// lane: bytes of four rows are interleaved, which leaves 64 channels in four parts; lane l of part p has
// channels 16 l + 4 p to 16 l + 4 p + 3. Results are packed from parts back to their order.
#if defined(__x86_64__)
#include <hwy/base.h>
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "sixfold/cpu/quant_kernels.h"

#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"  // of g++ 12's own headers
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
// After the headers: what they define stays code for any CPU.
HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")
#include "sixfold/cpu/quant_vnni-inl.h"

namespace sixfold::cpu {
namespace {

inline void interleave4(const __m512i* x, __m512i* out) {
  const __m512i a = _mm512_unpacklo_epi8(x[0], x[1]), b = _mm512_unpackhi_epi8(x[0], x[1]);
  const __m512i c = _mm512_unpacklo_epi8(x[2], x[3]), d = _mm512_unpackhi_epi8(x[2], x[3]);
  out[0] = _mm512_unpacklo_epi16(a, c);
  out[1] = _mm512_unpackhi_epi16(a, c);
  out[2] = _mm512_unpacklo_epi16(b, d);
  out[3] = _mm512_unpackhi_epi16(b, d);
}

// Parts of blocks <-> blocks: a 4 x 4 transpose of 128-bit lanes, its own inverse.
inline void transpose_lanes(__m512i* x) {
  const __m512i a = _mm512_shuffle_i32x4(x[0], x[1], 0x44), b = _mm512_shuffle_i32x4(x[0], x[1], 0xEE);
  const __m512i c = _mm512_shuffle_i32x4(x[2], x[3], 0x44), d = _mm512_shuffle_i32x4(x[2], x[3], 0xEE);
  x[0] = _mm512_shuffle_i32x4(a, c, 0x88);
  x[1] = _mm512_shuffle_i32x4(a, c, 0xDD);
  x[2] = _mm512_shuffle_i32x4(b, d, 0x88);
  x[3] = _mm512_shuffle_i32x4(b, d, 0xDD);
}

enum class Finish : uint8_t { any, bytes, words, vector };

// 64 channels of a filter: sums to results.
struct Results {
  const QuantTaps& t;
  int64_t first, count, blocks;
  __mmask64 some;
  Finish kind = Finish::any;
  bool pair = false;  // up to 32 channels: two rows at once
  __m512i bias[4], left[4], right[4], factor[4];
  __m512d scale[4][2];  // vector: of a part's halves
  Scale16 words[4];
  __m512i zero_point, min, max;  // bytes: words and bytes; words: dwords and words

  Results(const QuantTaps& taps, int64_t from)
      : t(taps),
        first(from),
        count(std::min<int64_t>(64, taps.count - from)),
        blocks((count + kQuantBlock - 1) / kQuantBlock),
        some(count == 64 ? ~__mmask64{0} : (__mmask64{1} << count) - 1) {
    const QuantOutput& out = *t.out;
    const QuantChannels* c = t.channels + first / kQuantBlock;
    bool small = true;  // factors below 1/2, so that scaled sums stay 32-bit numbers
    for (int64_t i = 0; i < count; ++i) small &= c[i / kQuantBlock].right[i % kQuantBlock] >= 16;
    if (out.min >= 0) {
      if (out.rounding == Rounding::matrix8 && !out.wide && !out.lefts) kind = Finish::bytes;
      if (out.rounding == Rounding::matrix16 && out.wide) kind = Finish::words;
      if (out.rounding == Rounding::vector && small && !out.lefts) kind = Finish::vector;
    }
    pair = kind != Finish::any && count <= 32;
    zero_point = out.wide ? _mm512_set1_epi32(out.zero_point)
                          : _mm512_set1_epi16(static_cast<int16_t>(out.zero_point));
    min = out.wide ? _mm512_set1_epi16(static_cast<int16_t>(out.min))
                   : _mm512_set1_epi8(static_cast<char>(out.min));
    max = out.wide ? _mm512_set1_epi16(static_cast<int16_t>(out.max))
                   : _mm512_set1_epi8(static_cast<char>(out.max));
    for (int64_t b = 0; b < 4; ++b) {
      const QuantChannels& from_block = c[block(b)];
      bias[b] = _mm512_load_si512(from_block.bias);
      right[b] = _mm512_load_si512(from_block.right);
      left[b] = _mm512_load_si512(from_block.left);
      factor[b] = _mm512_load_si512(from_block.multiplier);
    }
    transpose_lanes(bias);
    transpose_lanes(left);
    transpose_lanes(right);
    transpose_lanes(factor);
    for (int p = 0; p < 4; ++p) words[p] = Scale16(factor[p], left[p], right[p], out.zero_point);
    for (int p = 0; p < 4; ++p)
      for (int h = 0; h < 2; ++h) {
        const __m512d f = _mm512_cvtepi32_pd(half_of(factor[p], h));
        const __m512d e = _mm512_cvtepi32_pd(half_of(right[p], h));
        scale[p][h] = _mm512_scalef_pd(f, _mm512_sub_pd(_mm512_setzero_pd(), e));
      }
  }

  // The block whose channels are lane b of a part.
  int64_t block(int64_t b) const { return std::min(pair ? b % 2 : b, blocks - 1); }

  static __m256i half_of(__m512i x, int h) {
    return h ? _mm512_extracti64x4_epi64(x, 1) : _mm512_castsi512_si256(x);
  }
  // floor(sum * factor + 1/2) in doubles, which hold the product; the addition cannot round across a whole
  // number.
  static __m256i scaled(__m256i sum, __m512d scale) {
    const __m512d x = _mm512_fmadd_pd(_mm512_cvtepi32_pd(sum), scale, _mm512_set1_pd(0.5));
    return _mm512_cvt_roundpd_epi32(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  }

  template <Finish Kind>
  __m512i convert(__m512i sum, int p) const {
    sum = _mm512_add_epi32(sum, bias[p]);
    if constexpr (Kind == Finish::vector) {
      sum = _mm512_max_epi32(sum, _mm512_set1_epi32(-INT32_MAX));
      const __m256i low = scaled(half_of(sum, 0), scale[p][0]), high = scaled(half_of(sum, 1), scale[p][1]);
      return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    } else if constexpr (Kind == Finish::bytes) {
      // Cut at 2^14, which 8-bit results cannot tell from kLimit8, these are 16-bit numbers.
      const __m512i most = _mm512_set1_epi32((1 << 14) - 1), least = _mm512_set1_epi32(-(1 << 14));
      const __m512i x = clamp(_mm512_srav_epi32(sum, right[p]), least, most);
      const __m512i once = _mm512_add_epi32(factor[p], _mm512_set1_epi32(1 << 15));
      return _mm512_srai_epi32(_mm512_add_epi32(_mm512_madd_epi16(_mm512_add_epi32(x, x), factor[p]), once),
                               16);
    } else {
      return words[p](sum);  // with the zero point
    }
  }

  // Of a row, or of two rows of up to 32 channels. Packing works within 128-bit lanes, as the parts do.
  template <Finish Kind, bool Pair>
  void put(std::byte* to, std::byte* second, const __m512i* sums) const {
    __m512i q[4];
    for (int p = 0; p < 4; ++p) q[p] = convert<Kind>(sums[p], p);
    if (!t.out->wide) {
      const __m512i a = _mm512_adds_epi16(_mm512_packs_epi32(q[0], q[1]), zero_point);
      const __m512i b = _mm512_adds_epi16(_mm512_packs_epi32(q[2], q[3]), zero_point);
      const __m512i bytes = _mm512_min_epu8(_mm512_max_epu8(_mm512_packus_epi16(a, b), min), max);
      if constexpr (Pair) {
        const auto mask = static_cast<__mmask32>(some);
        _mm256_mask_storeu_epi8(to + first, mask, half_of(bytes, 0));
        _mm256_mask_storeu_epi8(second + first, mask, half_of(bytes, 1));
      } else {
        _mm512_mask_storeu_epi8(to + first, some, bytes);
      }
      return;
    }
    if constexpr (Kind != Finish::words)
      for (int p = 0; p < 4; ++p) q[p] = _mm512_add_epi32(q[p], zero_point);
    const __m512i a = _mm512_min_epu16(_mm512_max_epu16(_mm512_packus_epi32(q[0], q[1]), min), max);
    const __m512i b = _mm512_min_epu16(_mm512_max_epu16(_mm512_packus_epi32(q[2], q[3]), min), max);
    _mm512_mask_storeu_epi16(to + 2 * first, static_cast<__mmask32>(some),
                             _mm512_permutex2var_epi64(a, _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0), b));
    const auto mask = static_cast<__mmask32>(Pair ? some : some >> 32);
    if (!mask) return;
    _mm512_mask_storeu_epi16((Pair ? second : to + 64) + 2 * first, mask,
                             _mm512_permutex2var_epi64(a, _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4), b));
  }

  // From the sums of low and high bytes; high null: there are no high bytes.
  template <Finish Kind, bool Pair>
  void put(std::byte* to, std::byte* second, __m512i* low, __m512i* high) const {
    if constexpr (Kind == Finish::any) {
      transpose_lanes(low);
      if (high) transpose_lanes(high);
      const Epilogue epilogue(*t.out);
      for (int64_t b = 0; b < blocks; ++b)
        epilogue.put(to, first + b * kQuantBlock, count - b * kQuantBlock, low[b], high ? high[b] : low[b],
                     high != nullptr, t.channels[first / kQuantBlock + b]);
    } else {
      if (high)
        for (int p = 0; p < 4; ++p)
          low[p] = Kind == Finish::vector ? _mm512_add_epi32(_mm512_slli_epi32(high[p], 8), low[p])
                                          : _mm512_add_epi32(high[p], _mm512_srai_epi32(low[p], 8));
      put<Kind, Pair>(to, second, low);
    }
  }
};

constexpr int64_t kMostGroups = 16;  // filters of up to 64 taps

// The weights of 64 channels, [group of four taps][block].
void load_weights(const Results& r, __m512i (*weights)[4]) {
  const int64_t groups = r.t.taps / 4, block = r.first / kQuantBlock;
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t b = 0; b < 4; ++b)
      weights[g][b] = _mm512_loadu_si512(r.t.weights + ((block + r.block(b)) * groups + g) * kCell);
}

// 64 channels of a pixel, or 32 of two.
template <bool Pair>
inline __m512i load_channels(const uint8_t* from, const uint8_t* second, __mmask64 some) {
  if constexpr (!Pair) return _mm512_maskz_loadu_epi8(some, from);
  const auto mask = static_cast<__mmask32>(some);
  return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_maskz_loadu_epi8(mask, from)),
                            _mm256_maskz_loadu_epi8(mask, second), 1);
}

template <Finish Kind>
void by_groups(const Results& results) {
  const QuantTaps& t = results.t;
  const int64_t groups = t.taps / 4;
  alignas(64) __m512i weights[kMostGroups][4];
  load_weights(results, weights);
  for (int64_t g = 0; g < groups; ++g) transpose_lanes(weights[g]);
  for (int64_t r = 0; r < t.row_count; ++r) {
    __m512i sums[2][4];
    for (int64_t plane = 0; plane < (t.high ? 2 : 1); ++plane) {
      __m512i acc[4] = {};
      for (int64_t g = 0; g < groups; ++g) {
        __m512i x[4], parts[4];
        for (int k = 0; k < 4; ++k)
          x[k] = _mm512_maskz_loadu_epi8(
              results.some, t.rows[(4 * g + k) * t.row_step + r] + plane * t.high + results.first);
        interleave4(x, parts);
        for (int p = 0; p < 4; ++p) acc[p] = _mm512_dpbusd_epi32(acc[p], parts[p], weights[g][p]);
      }
      for (int p = 0; p < 4; ++p) sums[plane][p] = acc[p];
    }
    results.put<Kind, false>(t.results[r], nullptr, sums[0], t.high ? sums[1] : nullptr);
  }
}

// Neighbours share columns of the input: each is interleaved once, its first four rows and then the others.
constexpr int64_t kMostColumns = 72;

template <Finish Kind, bool Pair, int64_t Width, int64_t Height>
void by_columns(const Results& results) {
  constexpr int64_t kGroups = (Height + 3) / 4;
  const QuantTaps& t = results.t;
  const __mmask64 some = results.some;
  alignas(64) __m512i taps[kMostGroups][4], weights[Width][kGroups][4];
  load_weights(results, taps);
  for (int64_t x = 0; x < Width; ++x)
    for (int64_t g = 0; g < kGroups; ++g) {
      for (int64_t b = 0; b < 4; ++b) {
        __m512i w = _mm512_setzero_si512();
        for (int64_t y = 4 * g; y < std::min(Height, 4 * g + 4); ++y) {
          const int64_t k = y * Width + x;
          const __m512i byte = _mm512_and_si512(
              _mm512_srli_epi32(taps[k / 4][b], static_cast<unsigned>(8 * (k % 4))), _mm512_set1_epi32(255));
          w = _mm512_or_si512(w, _mm512_slli_epi32(byte, static_cast<unsigned>(8 * (y % 4))));
        }
        weights[x][g][b] = w;
      }
      transpose_lanes(weights[x][g]);
    }
  alignas(64) __m512i columns[2][kMostColumns][kGroups][4];
  const int64_t stride = t.stride, step = t.row_step, planes = t.high ? 2 : 1;
  const int64_t most = ((kMostColumns - Width) / stride + 1) * (Pair ? 2 : 1);
  for (int64_t row = 0, run_end = std::min(t.first_run, t.row_count); row < t.row_count;) {
    const int64_t n = std::min(run_end - row, most);
    // Of a pair the second is this many rows on; of an odd number one is done twice.
    const int64_t half = Pair ? (n + 1) / 2 : n, apart = n - half;
    for (int64_t plane = 0; plane < planes; ++plane)
      for (int64_t c = 0; c < (half - 1) * stride + Width; ++c) {
        const int64_t r = std::min(half - 1, c / stride);  // of whose taps it is one
        const uint8_t* const* from = t.rows + (c - r * stride) * step + row + r;
        const int64_t at = plane * t.high + results.first;
        for (int64_t g = 0; g < kGroups; ++g) {
          __m512i x[4];
          for (int64_t k = 0; k < 4; ++k) {
            const uint8_t* const* tap = from + (4 * g + k) * Width * step;
            x[k] = 4 * g + k < Height ? load_channels<Pair>(tap[0] + at, tap[Pair ? apart : 0] + at, some)
                                      : _mm512_setzero_si512();
          }
          interleave4(x, columns[plane][c][g]);
        }
      }
    for (int64_t r = 0; r < half; ++r) {
      __m512i sums[2][4];
      for (int64_t plane = 0; plane < planes; ++plane) {
        __m512i acc[4] = {};
        for (int64_t x = 0; x < Width; ++x)
          for (int64_t g = 0; g < kGroups; ++g)
            for (int p = 0; p < 4; ++p)
              acc[p] = _mm512_dpbusd_epi32(acc[p], columns[plane][r * stride + x][g][p], weights[x][g][p]);
        for (int p = 0; p < 4; ++p) sums[plane][p] = acc[p];
      }
      results.put<Kind, Pair>(t.results[row + r], t.results[row + r + apart], sums[0],
                              t.high ? sums[1] : nullptr);
    }
    row += n;
    if (row == run_end) run_end = std::min(run_end + t.run, t.row_count);
  }
}

template <Finish Kind>
void filter(const Results& results) {
  const QuantTaps& t = results.t;
  if (t.width == 3 && t.height == 3) {
    if constexpr (Kind != Finish::any)
      if (results.pair) return by_columns<Kind, true, 3, 3>(results);
    return by_columns<Kind, false, 3, 3>(results);
  }
  if (t.width == 5 && t.height == 5) {
    if constexpr (Kind != Finish::any)
      if (results.pair) return by_columns<Kind, true, 5, 5>(results);
    return by_columns<Kind, false, 5, 5>(results);
  }
  by_groups<Kind>(results);
}

}  // namespace

void vnni_depthwise(const QuantTaps& t) {
  if (t.taps > 4 * kMostGroups) return kPlainQuantKernels.depthwise(t);
  for (int64_t first = 0; first < t.count; first += 64) {
    const Results results(t, first);
    switch (results.kind) {
      case Finish::bytes:
        filter<Finish::bytes>(results);
        break;
      case Finish::words:
        filter<Finish::words>(results);
        break;
      case Finish::vector:
        filter<Finish::vector>(results);
        break;
      case Finish::any:
        filter<Finish::any>(results);
    }
  }
}

}  // namespace sixfold::cpu
HWY_POP_ATTRIBUTES
#endif
