// AVX-512 with VNNI: a block's weights are one register, and vpdpbusd multiplies unsigned by signed bytes.
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

// Up to 64 bytes of results at once: matrix8 without shifts to the left. Cut at 2^14 rather than kLimit8,
// which 8-bit results cannot tell apart, shifted sums are 16-bit numbers.
class Bytes64 {
 public:
  static bool fits(const QuantOutput& out) {
    return out.rounding == Rounding::matrix8 && !out.lefts && !out.wide && out.min >= 0;
  }
  Bytes64(const QuantOutput& out, const QuantChannels* channels, int64_t blocks)
      : zero_point_(_mm512_set1_epi16(static_cast<int16_t>(out.zero_point))),
        min_(_mm512_set1_epi8(static_cast<char>(out.min))),
        max_(_mm512_set1_epi8(static_cast<char>(out.max))) {
    for (int64_t b = 0; b < 4; ++b) {
      const QuantChannels& c = channels[std::min(b, blocks - 1)];
      bias_[b] = _mm512_load_si512(c.bias);
      right_[b] = _mm512_load_si512(c.right);
      const __m512i f = _mm512_load_si512(c.multiplier);
      twice_[b] = _mm512_add_epi32(f, f);
      once_[b] = _mm512_add_epi32(f, _mm512_set1_epi32(1 << 15));
    }
  }
  __m512i scaled(__m512i sum, int64_t b) const {
    const __m512i most = _mm512_set1_epi32((1 << 14) - 1), least = _mm512_set1_epi32(-(1 << 14));
    const __m512i x = clamp(_mm512_srav_epi32(_mm512_add_epi32(sum, bias_[b]), right_[b]), least, most);
    return _mm512_srai_epi32(_mm512_add_epi32(_mm512_madd_epi16(x, twice_[b]), once_[b]), 16);
  }
  // Of sums of 64 channels, in their order.
  __m512i operator()(__m512i a, __m512i b, __m512i c, __m512i d) const {
    // Packing works within 128-bit lanes: dword 4 l + b of its result are channels 16 b + 4 l on.
    const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(scaled(a, 0), scaled(b, 1)), zero_point_);
    const __m512i high = _mm512_adds_epi16(_mm512_packs_epi32(scaled(c, 2), scaled(d, 3)), zero_point_);
    const __m512i bytes = _mm512_permutexvar_epi32(order, _mm512_packus_epi16(low, high));
    return _mm512_min_epu8(_mm512_max_epu8(bytes, min_), max_);
  }

 private:
  __m512i zero_point_, min_, max_;
  __m512i bias_[4], right_[4], twice_[4], once_[4];
};

inline __mmask64 first_bytes(int64_t n) { return n >= 64 ? ~__mmask64{0} : (__mmask64{1} << n) - 1; }

template <int Blocks>
void finish_bytes(const QuantTile& t, int rows, const __m512i* sums) {
  const Bytes64 convert(*t.out, t.channels, Blocks);
  const __mmask64 some = first_bytes(t.count);
  for (int r = 0; r < rows; ++r, sums += Blocks) {
    const __m512i bytes =
        convert(sums[0], sums[Blocks > 1 ? 1 : 0], sums[Blocks > 2 ? 2 : 0], sums[Blocks > 3 ? 3 : 0]);
    _mm512_mask_storeu_epi8(t.results[r], some, bytes);
  }
}

// Up to two blocks of 16-bit results of matrix16 at once.
template <int Blocks>
void finish_words(const QuantTile& t, int rows, const __m512i* low, const __m512i* high) {
  const QuantOutput& out = *t.out;
  const __m512i min = _mm512_set1_epi16(static_cast<int16_t>(out.min)),
                max = _mm512_set1_epi16(static_cast<int16_t>(out.max));
  const __m512i order = _mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0);  // packing works within 128-bit lanes
  __m512i bias[Blocks];
  Scale16 scale[Blocks];
  for (int b = 0; b < Blocks; ++b) {
    const QuantChannels& c = t.channels[b];
    bias[b] = _mm512_load_si512(c.bias);
    scale[b] = Scale16(_mm512_load_si512(c.multiplier), _mm512_load_si512(c.left), _mm512_load_si512(c.right),
                       out.zero_point);
  }
  const auto some = static_cast<__mmask32>(t.count >= 32 ? ~0u : (1u << t.count) - 1);
  for (int r = 0; r < rows; ++r) {
    __m512i q[Blocks];
    for (int b = 0; b < Blocks; ++b) {
      const __m512i sum = _mm512_add_epi32(
          bias[b], _mm512_add_epi32(high[Blocks * r + b], _mm512_srai_epi32(low[Blocks * r + b], 8)));
      q[b] = scale[b](sum);
    }
    const __m512i words = _mm512_permutexvar_epi64(order, _mm512_packus_epi32(q[0], q[Blocks - 1]));
    _mm512_mask_storeu_epi16(t.results[r], some, _mm512_min_epu16(_mm512_max_epu16(words, min), max));
  }
}

// Apart from the tiles, which are many: sums are [row][block].
__attribute__((noinline)) void finish(const QuantTile& t, int rows, int blocks, const __m512i* low,
                                      const __m512i* high) {
  const QuantOutput& out = *t.out;
  if (!high && Bytes64::fits(out)) {
    constexpr decltype(&finish_bytes<1>) kFinish[] = {finish_bytes<1>, finish_bytes<2>, finish_bytes<3>,
                                                      finish_bytes<4>};
    return kFinish[blocks - 1](t, rows, low);
  }
  if (high && out.rounding == Rounding::matrix16 && out.wide && out.min >= 0)
    return (blocks == 2 ? finish_words<2> : finish_words<1>)(t, rows, low, high);
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
  // Copies: accumulators whose address another function gets would be kept in memory.
  __m512i sums[Wide ? 2 : 1][Rows][Blocks];
  for (int r = 0; r < Rows; ++r)
    for (int b = 0; b < Blocks; ++b) {
      sums[0][r][b] = low[r][b];
      if constexpr (Wide) sums[1][r][b] = high[r][b];
    }
  finish(t, Rows, Blocks, &sums[0][0][0], Wide ? &sums[1][0][0] : nullptr);
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

}  // namespace

extern const QuantKernels kVnniQuantKernels = {"vnni", 6, 4, 6, 2, product, vnni_depthwise};

}  // namespace sixfold::cpu
HWY_POP_ATTRIBUTES
#endif
