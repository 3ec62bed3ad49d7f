// Convolutions of volumes [N, D, H, W, C] on the emulator.
#pragma once

#include <array>

#include "sixfold/emulator/kernel.h"

namespace sixfold::emulator {

struct Volume {
  std::array<int64_t, 3> in, out, taps, stride, dilation, pad;
  int64_t batch, in_channels, out_channels, groups;
  bool transposed;

  int64_t inputs() const { return in_channels / groups; }
  int64_t outputs() const { return out_channels / groups; }
  // [..., C / groups, O], transposed [..., C, O / groups]
  int64_t weight_index(int64_t tap, int64_t group, int64_t i, int64_t o) const {
    return transposed ? (tap * in_channels + group * inputs() + i) * outputs() + o
                      : (tap * inputs() + i) * out_channels + group * outputs() + o;
  }
  // The input that a tap reads for an output along an axis; -1: none.
  int64_t source(size_t axis, int64_t o, int64_t tap) const {
    int64_t at = 0;
    if (transposed) {
      at = o + pad[axis] - tap;
      if (at % stride[axis] != 0) return -1;
      at /= stride[axis];
    } else {
      at = o * stride[axis] + tap * dilation[axis] - pad[axis];
    }
    return at >= 0 && at < in[axis] ? at : -1;
  }
  // look(tap, at) for each tap of an output (a point of any batch), in order: where the channels of the input
  // that it reads begin; -1: none.
  template <typename Look>
  void for_taps(int64_t o, const Look& look) const {
    const int64_t column = o % out[2], row = o / out[2] % out[1], plane = o / out[2] / out[1] % out[0],
                  n = o / out[2] / out[1] / out[0];
    int64_t tap = 0;
    for (int64_t i = 0; i < taps[0]; ++i)
      for (int64_t j = 0; j < taps[1]; ++j)
        for (int64_t k = 0; k < taps[2]; ++k, ++tap) {
          const int64_t p = source(0, plane, i), q = source(1, row, j), r = source(2, column, k);
          const bool none = p < 0 || q < 0 || r < 0;
          look(tap, none ? -1 : (((n * in[0] + p) * in[1] + q) * in[2] + r) * in_channels);
        }
  }
};

// 8-bit activations by constant weights: the matrix unit's products.
Result<Step> prepare_volume_products(const OpView& op, const Volume& volume, Prepare& prepare);
// Floats by constant weights.
Result<Step> prepare_volume_floats(const OpView& op, const Volume& volume, Prepare& prepare);

}  // namespace sixfold::emulator
