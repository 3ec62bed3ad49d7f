// AVX-512 with VNNI: a block's weights are one register, and vpdpbusd multiplies unsigned by signed bytes.
#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "sixfold/cpu/quant_kernels.h"

// After the headers: what they define stays code for any CPU.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni"))), \
                             apply_to = function)
#else
#pragma GCC diagnostic ignored "-Wuninitialized"  // of g++ 12's own headers
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")
#endif

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
      if (out.lefts) {
        const __m512i bound = _mm512_srav_epi32(_mm512_set1_epi32(INT32_MAX), left);
        sum = _mm512_sllv_epi32(clamp(sum, _mm512_sub_epi32(_mm512_setzero_si512(), bound), bound), left);
      } else {
        sum = _mm512_max_epi32(sum, _mm512_set1_epi32(-INT32_MAX));
      }
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

// 64 bytes of results at once: four blocks of matrix8 without shifts to the left. Cut at 2^14 rather than
// kLimit8, which 8-bit results cannot tell apart, shifted sums are 16-bit numbers.
void finish64(const QuantTile& t, int rows, const __m512i* sums) {
  const QuantOutput& out = *t.out;
  const __m512i most = _mm512_set1_epi32((1 << 14) - 1), least = _mm512_set1_epi32(-(1 << 14));
  const __m512i zero_point = _mm512_set1_epi16(static_cast<int16_t>(out.zero_point));
  const __m512i min = _mm512_set1_epi8(static_cast<char>(out.min)),
                max = _mm512_set1_epi8(static_cast<char>(out.max));
  // Packing works within 128-bit lanes: dword 4 l + b of its result are channels 16 b + 4 l on.
  const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
  __m512i bias[4], right[4], twice[4], once[4];
  for (int b = 0; b < 4; ++b) {
    const QuantChannels& c = t.channels[b];
    bias[b] = _mm512_load_si512(c.bias);
    right[b] = _mm512_load_si512(c.right);
    const __m512i f = _mm512_load_si512(c.multiplier);
    twice[b] = _mm512_add_epi32(f, f);
    once[b] = _mm512_add_epi32(f, _mm512_set1_epi32(1 << 15));
  }
  for (int r = 0; r < rows; ++r) {
    __m512i q[4];
    for (int b = 0; b < 4; ++b) {
      const __m512i x =
          clamp(_mm512_srav_epi32(_mm512_add_epi32(sums[4 * r + b], bias[b]), right[b]), least, most);
      q[b] = _mm512_srai_epi32(_mm512_add_epi32(_mm512_madd_epi16(x, twice[b]), once[b]), 16);
    }
    const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(q[0], q[1]), zero_point);
    const __m512i high = _mm512_adds_epi16(_mm512_packs_epi32(q[2], q[3]), zero_point);
    const __m512i bytes = _mm512_permutexvar_epi32(order, _mm512_packus_epi16(low, high));
    _mm512_storeu_si512(t.results[r], _mm512_min_epu8(_mm512_max_epu8(bytes, min), max));
  }
}

// Apart from the tiles, which are many: sums are [row][block].
__attribute__((noinline)) void finish(const QuantTile& t, int rows, int blocks, const __m512i* low,
                                      const __m512i* high) {
  const QuantOutput& out = *t.out;
  if (out.rounding == Rounding::matrix8 && !out.lefts && !out.wide && out.min >= 0 && blocks == 4 &&
      t.count == 64)
    return finish64(t, rows, low);
  const Epilogue epilogue(out);
  for (int b = 0; b < blocks; ++b)
    for (int r = 0; r < rows; ++r)
      epilogue.put(t.results[r], b * kQuantBlock, t.count - b * kQuantBlock, low[r * blocks + b],
                   high ? high[r * blocks + b] : low[r * blocks + b], high != nullptr, t.channels[b]);
}

template <int Rows, int Blocks, bool Wide>
void tile(const QuantTile& t) {
  const int64_t step = t.segments * t.groups * kCell;
  __m512i low[Rows][Blocks], high[Wide ? Rows : 1][Wide ? Blocks : 1];
  for (int r = 0; r < Rows; ++r)
    for (int b = 0; b < Blocks; ++b) low[r][b] = _mm512_setzero_si512();
  if constexpr (Wide)
    for (int r = 0; r < Rows; ++r)
      for (int b = 0; b < Blocks; ++b) high[r][b] = _mm512_setzero_si512();
  const int8_t* w = t.weights;
  for (int64_t s = 0; s < t.segments; ++s) {
    const uint8_t* x[Rows];
    for (int r = 0; r < Rows; ++r) x[r] = t.rows[s * kQuantRows + r];
    for (int64_t g = 0; g < t.groups; ++g, w += kCell) {
      __m512i weights[Blocks];
      for (int b = 0; b < Blocks; ++b) weights[b] = _mm512_loadu_si512(w + b * step);
      for (int r = 0; r < Rows; ++r) {
        const __m512i a = broadcast4(x[r] + g * kQuantGroup);
        for (int b = 0; b < Blocks; ++b) low[r][b] = _mm512_dpbusd_epi32(low[r][b], a, weights[b]);
      }
      if constexpr (Wide)
        for (int r = 0; r < Rows; ++r) {
          const __m512i a = broadcast4(x[r] + t.high + g * kQuantGroup);
          for (int b = 0; b < Blocks; ++b) high[r][b] = _mm512_dpbusd_epi32(high[r][b], a, weights[b]);
        }
    }
  }
  finish(t, Rows, Blocks, &low[0][0], Wide ? &high[0][0] : nullptr);
}

using TileFunction = void (*)(const QuantTile&);
constexpr TileFunction kTiles[6][4] = {
    {tile<1, 1, false>, tile<1, 2, false>, tile<1, 3, false>, tile<1, 4, false>},
    {tile<2, 1, false>, tile<2, 2, false>, tile<2, 3, false>, tile<2, 4, false>},
    {tile<3, 1, false>, tile<3, 2, false>, tile<3, 3, false>, tile<3, 4, false>},
    {tile<4, 1, false>, tile<4, 2, false>, tile<4, 3, false>, tile<4, 4, false>},
    {tile<5, 1, false>, tile<5, 2, false>, tile<5, 3, false>, tile<5, 4, false>},
    {tile<6, 1, false>, tile<6, 2, false>, tile<6, 3, false>, tile<6, 4, false>},
};
constexpr TileFunction kWideTiles[6][2] = {
    {tile<1, 1, true>, tile<1, 2, true>}, {tile<2, 1, true>, tile<2, 2, true>},
    {tile<3, 1, true>, tile<3, 2, true>}, {tile<4, 1, true>, tile<4, 2, true>},
    {tile<5, 1, true>, tile<5, 2, true>}, {tile<6, 1, true>, tile<6, 2, true>},
};

void product(const QuantTile& t, int64_t row_count) {
  const int64_t blocks = (t.count + kQuantBlock - 1) / kQuantBlock;
  (t.high ? kWideTiles[row_count - 1][blocks - 1] : kTiles[row_count - 1][blocks - 1])(t);
}

// Four taps of 64 channels, so that each 32-bit lane has the four taps of a channel. Lane l of part p has
// channels 16 l + 4 p to 16 l + 4 p + 3.
inline void transpose4(const __m512i* x, __m512i* out) {
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

constexpr int64_t kMostGroups = 16;  // filters of up to 64 taps keep their weights in parts' order

void depthwise64(const QuantTaps& t, int64_t first) {
  const int64_t groups = t.taps / 4, count = std::min<int64_t>(64, t.count - first);
  const int64_t blocks = (count + kQuantBlock - 1) / kQuantBlock;
  const auto load = count == 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
  alignas(64) __m512i weights[kMostGroups][4];
  for (int64_t g = 0; g < groups; ++g) {
    for (int64_t b = 0; b < 4; ++b)
      weights[g][b] = b < blocks
                          ? _mm512_loadu_si512(t.weights + ((first / kQuantBlock + b) * groups + g) * kCell)
                          : _mm512_setzero_si512();
    transpose_lanes(weights[g]);
  }
  const Epilogue epilogue(*t.out);
  const auto sums = [&](int64_t r, int64_t plane, __m512i* acc) {
    for (int p = 0; p < 4; ++p) acc[p] = _mm512_setzero_si512();
    for (int64_t g = 0; g < groups; ++g) {
      __m512i x[4], parts[4];
      for (int k = 0; k < 4; ++k)
        x[k] = _mm512_maskz_loadu_epi8(load, t.rows[(4 * g + k) * t.row_step + r] + plane + first);
      transpose4(x, parts);
      for (int p = 0; p < 4; ++p) acc[p] = _mm512_dpbusd_epi32(acc[p], parts[p], weights[g][p]);
    }
    transpose_lanes(acc);
  };
  for (int64_t r = 0; r < t.row_count; ++r) {
    __m512i low[4], high[4];
    sums(r, 0, low);
    if (t.high) sums(r, t.high, high);
    for (int64_t b = 0; b < blocks; ++b)
      epilogue.put(t.results[r], first + b * kQuantBlock, count - b * kQuantBlock, low[b],
                   t.high ? high[b] : low[b], t.high != 0, t.channels[first / kQuantBlock + b]);
  }
}

void depthwise(const QuantTaps& t) {
  if (t.taps > 4 * kMostGroups) return kPlainQuantKernels.depthwise(t);
  for (int64_t first = 0; first < t.count; first += 64) depthwise64(t, first);
}

}  // namespace

extern const QuantKernels kVnniQuantKernels = {"vnni", 6, 4, 6, 2, product, depthwise};

}  // namespace sixfold::cpu
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
