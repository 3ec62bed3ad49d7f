// What every faster kernel must equal bit for bit.
#include "sixfold/cpu/quant_kernels.h"

namespace sixfold::cpu {
namespace {

constexpr int64_t kCell = kQuantBlock * kQuantGroup;

void product(const QuantTile& t, int64_t row_count) {
  for (int64_t r = 0; r < row_count; ++r) {
    for (int64_t first = 0; first < t.count; first += kQuantBlock) {
      const int64_t block = first / kQuantBlock;
      const int8_t* w = t.weights + block * t.segments * t.groups * kCell;
      int32_t low[kQuantBlock] = {}, high[kQuantBlock] = {};
      for (int64_t s = 0; s < t.segments; ++s) {
        const uint8_t* x = t.rows[s * kQuantRows + r];
        for (int64_t g = 0; g < t.groups; ++g, w += kCell, x += kQuantGroup) {
          for (int64_t i = 0; i < kCell; ++i) low[i / kQuantGroup] += x[i % kQuantGroup] * w[i];
          if (t.high == 0) continue;
          for (int64_t i = 0; i < kCell; ++i) high[i / kQuantGroup] += x[t.high + i % kQuantGroup] * w[i];
        }
      }
      const QuantChannels& c = t.channels[block];
      for (int64_t i = 0; i < kQuantBlock && first + i < t.count; ++i) {
        const int32_t sum = join_sums(low[i], high[i], c.bias[i], t.high != 0, t.out->rounding);
        put_result(t.results[r], first + i, requantize(sum, c, i, *t.out), *t.out);
      }
    }
  }
}

void depthwise(const QuantTaps& t) {
  for (int64_t r = 0; r < t.row_count; ++r) {
    for (int64_t ch = 0; ch < t.count; ++ch) {
      const int64_t block = ch / kQuantBlock, i = ch % kQuantBlock;
      const int8_t* w = t.weights + block * kQuantBlock * t.taps + i * 4;
      int32_t low = 0, high = 0;
      for (int64_t k = 0; k < t.taps; ++k) {
        const int32_t f = w[k / 4 * kCell + k % 4];
        const uint8_t* x = t.rows[k * t.row_step + r] + ch;
        low += x[0] * f;
        if (t.high) high += x[t.high] * f;
      }
      const QuantChannels& c = t.channels[block];
      const int32_t sum = join_sums(low, high, c.bias[i], t.high != 0, t.out->rounding);
      put_result(t.results[r], ch, requantize(sum, c, i, *t.out), *t.out);
    }
  }
}

}  // namespace

extern const QuantKernels kPlainQuantKernels = {"plain", 1, 1, 1, 1, product, depthwise};

}  // namespace sixfold::cpu
