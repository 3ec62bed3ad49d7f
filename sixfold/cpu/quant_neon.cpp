// NEON, with and without dot products of bytes. Both multiply signed bytes: activations are shifted to
// [-128, 127], and 128 times the sum of the weights comes back with the first sum.
#if defined(__aarch64__)
#include <arm_neon.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif

#include <algorithm>
#include <cstring>

#include "sixfold/cpu/quant_kernels.h"

namespace sixfold::cpu {

bool has_dot_product() {
#if defined(__linux__)
  constexpr unsigned long kDotProduct = 1ul << 20;  // HWCAP_ASIMDDP
  return (getauxval(AT_HWCAP) & kDotProduct) != 0;
#else
  return true;  // every Apple core that runs arm64 programs of today
#endif
}

namespace {

constexpr int64_t kCell = kQuantBlock * kQuantGroup;

inline int8x16_t broadcast4(const uint8_t* p) {
  uint32_t x;
  std::memcpy(&x, p, 4);
  return vreinterpretq_s8_u32(vdupq_n_u32(x ^ 0x80808080u));
}
inline int32x4_t clamp(int32x4_t x, int32_t low, int32_t high) {
  return vminq_s32(vmaxq_s32(x, vdupq_n_s32(low)), vdupq_n_s32(high));
}

int32x4_t shifted(int32x4_t sum, const QuantChannels& c, int64_t at, const QuantOutput& out, int32_t limit) {
  if (out.lefts) {
    const int32x4_t left = vld1q_s32(c.left + at), bound = vshlq_s32(vdupq_n_s32(limit), vnegq_s32(left));
    const int32x4_t cut = vmaxq_s32(vminq_s32(sum, bound), vnegq_s32(bound));
    sum = vshlq_s32(vbslq_s32(vceqzq_s32(left), sum, cut), left);
  }
  return clamp(vshlq_s32(sum, vnegq_s32(vld1q_s32(c.right + at))), -limit, limit);
}

// Four sums, bias included, of channels `at` on.
int32x4_t convert(int32x4_t sum, const QuantChannels& c, int64_t at, const QuantOutput& out) {
  const int32x4_t f = vld1q_s32(c.multiplier + at);
  int32x4_t q;
  if (out.rounding == Rounding::matrix8) {
    const int32x4_t t = shifted(sum, c, at, out, kLimit8);
    q = vshrq_n_s32(vaddq_s32(vmlaq_s32(f, vaddq_s32(t, t), f), vdupq_n_s32(1 << 15)), 16);
  } else if (out.rounding == Rounding::matrix16) {
    const int32x4_t t = shifted(sum, c, at, out, kLimit16);
    const int32x4_t odd = vaddq_s32(vaddq_s32(t, t), vdupq_n_s32(1));
    const int64x2_t half = vdupq_n_s64(1 << 29);
    const int64x2_t a = vmlal_s32(half, vget_low_s32(odd), vget_low_s32(f));
    const int64x2_t b = vmlal_high_s32(half, odd, f);
    q = vcombine_s32(vshrn_n_s64(a, 30), vshrn_n_s64(b, 30));
  } else {
    int32_t lanes[4];
    vst1q_s32(lanes, sum);
    for (int64_t i = 0; i < 4; ++i) lanes[i] = requantize(lanes[i], c, at + i, out);
    return vld1q_s32(lanes);
  }
  return clamp(vaddq_s32(q, vdupq_n_s32(out.zero_point)), out.min, out.max);
}

// Results of a block, from its sums; high null: 8-bit activations. n: channels that there are.
void put(std::byte* to, int64_t channel, int64_t n, const int32x4_t* low, const int32x4_t* high,
         const QuantChannels& c, const QuantOutput& out) {
  int32_t q[kQuantBlock];
  for (int i = 0; i < 4; ++i) {
    int32x4_t sum = low[i];
    if (high)
      sum = out.rounding == Rounding::vector ? vaddq_s32(vshlq_n_s32(high[i], 8), sum)
                                             : vaddq_s32(high[i], vshrq_n_s32(sum, 8));
    sum = convert(vaddq_s32(sum, vld1q_s32(c.bias + 4 * i)), c, 4 * i, out);
    vst1q_s32(q + 4 * i, sum);
  }
  for (int64_t i = 0; i < n; ++i) put_result(to, channel + i, q[i], out);
}

struct Dot {
  static constexpr int kRegisters = 4;
  template <int Rows>
#if defined(__clang__)
  __attribute__((target("dotprod")))
#else
  __attribute__((target("arch=armv8.2-a+dotprod")))
#endif
  static void
  add(const uint8_t* const* x, int64_t groups, const int8_t* w, int32x4_t (*acc)[kRegisters]) {
    int32x4_t sums[Rows][kRegisters];  // in registers
    std::copy(&acc[0][0], &acc[0][0] + Rows * kRegisters, &sums[0][0]);
    for (int64_t g = 0; g < groups; ++g, w += kCell) {
      int8x16_t weights[4];
      for (int i = 0; i < 4; ++i) weights[i] = vld1q_s8(w + 16 * i);
      for (int r = 0; r < Rows; ++r) {
        const int8x16_t a = broadcast4(x[r] + g * kQuantGroup);
        for (int i = 0; i < 4; ++i) sums[r][i] = vdotq_s32(sums[r][i], weights[i], a);
      }
    }
    std::copy(&sums[0][0], &sums[0][0] + Rows * kRegisters, &acc[0][0]);
  }
  static int32x4_t sum(const int32x4_t* acc, int i) { return acc[i]; }
};

struct Pairs {  // two lanes for each channel
  static constexpr int kRegisters = 8;
  template <int Rows>
  static void add(const uint8_t* const* x, int64_t groups, const int8_t* w, int32x4_t (*acc)[kRegisters]) {
    for (int64_t g = 0; g < groups; ++g, w += kCell)
      for (int r = 0; r < Rows; ++r) {
        const int8x8_t a = vget_low_s8(broadcast4(x[r] + g * kQuantGroup));
        for (int i = 0; i < 8; ++i) acc[r][i] = vpadalq_s16(acc[r][i], vmull_s8(vld1_s8(w + 8 * i), a));
      }
  }
  static int32x4_t sum(const int32x4_t* acc, int i) { return vpaddq_s32(acc[2 * i], acc[2 * i + 1]); }
};

template <typename Kind, int Rows>
void sums(const QuantTile& t, int64_t plane, int32x4_t (*out)[4]) {
  int32x4_t acc[Rows][Kind::kRegisters];
  for (auto& row : acc)
    for (int32x4_t& a : row) a = vdupq_n_s32(0);
  const int8_t* w = t.weights;
  for (int64_t s = 0; s < t.segments; ++s, w += t.groups * kCell) {
    const uint8_t* x[Rows];
    for (int r = 0; r < Rows; ++r) x[r] = t.rows[s * kQuantRows + r] + plane;
    Kind::template add<Rows>(x, t.groups, w, acc);
  }
  for (int r = 0; r < Rows; ++r)
    for (int i = 0; i < 4; ++i)
      out[r][i] = vaddq_s32(Kind::sum(acc[r], i), vshlq_n_s32(vld1q_s32(t.channels[0].sum + 4 * i), 7));
}

template <typename Kind, int Rows>
void tile(const QuantTile& t) {
  int32x4_t low[Rows][4], high[Rows][4];
  sums<Kind, Rows>(t, 0, low);
  if (t.high) sums<Kind, Rows>(t, t.high, high);
  for (int r = 0; r < Rows; ++r)
    put(t.results[r], 0, std::min<int64_t>(kQuantBlock, t.count), low[r], t.high ? high[r] : nullptr,
        t.channels[0], *t.out);
}

template <typename Kind>
void product(const QuantTile& t, int64_t row_count) {
  constexpr void (*kTiles[])(const QuantTile&) = {tile<Kind, 1>, tile<Kind, 2>, tile<Kind, 3>, tile<Kind, 4>};
  kTiles[row_count - 1](t);
}

// The weights of a group of four taps lie as [channel][tap].
void tap_sums(const QuantTaps& t, int64_t r, int64_t first, int64_t plane, int32x4_t* acc) {
  const int64_t n = std::min<int64_t>(kQuantBlock, t.count - first);
  for (int i = 0; i < 4; ++i) acc[i] = vdupq_n_s32(0);
  const int8_t* w = t.weights + first / kQuantBlock * (t.taps / 4) * kCell;
  for (int64_t g = 0; g < t.taps / 4; ++g, w += kCell) {
    const int8x16x4_t weights = vld4q_s8(w);
    for (int k = 0; k < 4; ++k) {
      const uint8_t* from = t.rows[(4 * g + k) * t.row_step + r] + plane + first;
      uint8_t some[kQuantBlock] = {};
      if (n < kQuantBlock)
        from = static_cast<const uint8_t*>(std::memcpy(some, from, static_cast<size_t>(n)));
      const uint8x16_t x = vld1q_u8(from);
      const int16x8_t a = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(x)));
      const int16x8_t b = vreinterpretq_s16_u16(vmovl_high_u8(x));
      const int16x8_t c = vmovl_s8(vget_low_s8(weights.val[k])), d = vmovl_high_s8(weights.val[k]);
      acc[0] = vmlal_s16(acc[0], vget_low_s16(a), vget_low_s16(c));
      acc[1] = vmlal_high_s16(acc[1], a, c);
      acc[2] = vmlal_s16(acc[2], vget_low_s16(b), vget_low_s16(d));
      acc[3] = vmlal_high_s16(acc[3], b, d);
    }
  }
}

void depthwise(const QuantTaps& t) {
  for (int64_t first = 0; first < t.count; first += kQuantBlock)
    for (int64_t r = 0; r < t.row_count; ++r) {
      int32x4_t low[4], high[4];
      tap_sums(t, r, first, 0, low);
      if (t.high) tap_sums(t, r, first, t.high, high);
      put(t.results[r], first, std::min<int64_t>(kQuantBlock, t.count - first), low, t.high ? high : nullptr,
          t.channels[first / kQuantBlock], *t.out);
    }
}

}  // namespace

extern const QuantKernels kNeonQuantKernels = {"neon", 2, 1, 2, 1, product<Pairs>, depthwise};
extern const QuantKernels kDotQuantKernels = {"dot", 4, 1, 4, 1, product<Dot>, depthwise};

}  // namespace sixfold::cpu
#endif
