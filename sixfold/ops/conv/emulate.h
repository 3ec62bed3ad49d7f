// What the emulator's convolutions share.
#pragma once

#include <vector>

#include "sixfold/cpu/quant_conv.h"
#include "sixfold/emulator/kernel.h"

namespace sixfold::emulator {

struct ConvShape {
  // Of a transposed convolution: the filter and the padding are the op's, the stride is 1.
  cpu::QuantWindow window;
  bool transposed = false, depthwise_weights = false;
  int64_t stride_y = 1, stride_x = 1;

  // Where the weights' tensor has a tap.
  int64_t weight_index(int64_t ky, int64_t kx, int64_t input, int64_t output) const;
};
// Unsupported when shapes and parameters do not go together.
Result<ConvShape> read_conv(const OpView& op);

// A transposed convolution is stride * stride convolutions, each of which gives every stride-th pixel of the
// output; any other is one phase.
struct ConvPhase {
  cpu::QuantWindow window;
  int64_t out_y = 0, out_x = 0;      // its first pixel
  int64_t tap_y = 0, tap_x = 0;      // its first tap
  int64_t every_y = 1, every_x = 1;  // pixel of the output
  bool empty = false;                // no tap reaches it

  int64_t weight_index(const ConvShape& shape, int64_t tap, int64_t input, int64_t output) const;  // -1: zero
};
std::vector<ConvPhase> phases_of(const ConvShape& shape);

Result<Step> prepare_float_conv(const OpView& op, const ConvShape& shape, Prepare& prepare);
// By 16-bit weights.
Result<Step> prepare_wide_conv(const OpView& op, const ConvShape& shape, Prepare& prepare);
// A filter of one tap for each channel, of 16-bit activations.
bool is_points(const OpView& op, const ConvShape& shape);
Result<Step> prepare_points(const OpView& op, const ConvShape& shape, Prepare& prepare);

}  // namespace sixfold::emulator
