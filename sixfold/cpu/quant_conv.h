// Convolutions, linear layers and products in fixed point, over the kernels of cpu/quant.h.
//
// Weights are packed once, into bytes that are the same for every CPU and can be stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "sixfold/cpu/pool.h"
#include "sixfold/cpu/quant.h"

namespace sixfold::cpu {

// A window over [batch, height, width, channels]. A linear layer is 1 x 1 over rows.
struct QuantWindow {
  int64_t batch = 1, in_height = 1, in_width = 1, in_channels = 1;
  int64_t out_height = 1, out_width = 1, out_channels = 1;
  int64_t height = 1, width = 1;  // of the filter
  int64_t stride_y = 1, stride_x = 1, dilation_y = 1, dilation_x = 1;
  int64_t pad_top = 0, pad_left = 0;  // may be negative: a part of the input is left out
  int64_t groups = 1;

  int64_t taps() const { return height * width; }
  int64_t inputs() const { return in_channels / groups; }    // of one output
  int64_t outputs() const { return out_channels / groups; }  // of a group
  int64_t rows() const { return batch * out_height * out_width; }
  bool depthwise() const { return groups > 1 && inputs() == 1 && outputs() == 1; }
};

// Where the packed parts of a window's weights are: [weights][QuantChannels of every block], from a 64-byte
// boundary.
struct QuantLayout {
  bool depthwise = false;
  bool joined = false;               // a row of the filter's taps is one segment
  int64_t segments = 1, groups = 0;  // of a product; depthwise: groups of 4 taps
  int64_t blocks = 0;                // of a group of channels
  int64_t block_bytes = 0, weight_bytes = 0, bytes = 0;
};
QuantLayout quant_layout(const QuantWindow& window);

// Gives the weights, in [-128, 127], of a tap and an input for the outputs from `first` on, which counts over
// all groups; they are of one group. Sets the weights and their sums in `packed`, zero in the padding; biases
// and factors are the caller's.
using QuantWeight =
    std::function<void(int64_t tap, int64_t input, int64_t first, std::span<int32_t> outputs)>;
void pack_quant(const QuantWindow& window, const QuantWeight& weight, std::byte* packed);
QuantChannels* quant_channels(const QuantWindow& window, std::byte* packed);
const QuantChannels* quant_channels(const QuantWindow& window, const std::byte* packed);
// The block and the place in it of an output channel.
struct QuantPlace {
  int64_t block, i;
};
QuantPlace quant_place(const QuantWindow& window, int64_t output);

struct QuantInput {
  const std::byte* data = nullptr;
  bool wide = false;       // 16-bit
  bool flip = false;       // signed: the sign bit is flipped when read
  int32_t zero_point = 0;  // of the unsigned numbers
};
// The input as kernels read it: in place, or copied into planes of bytes. A pixel of zero points (joined: a
// row of them) is at pad_at.
struct QuantCopy {
  bool copied = false;
  int64_t pixel = 0, group = 0;   // bytes from pixel to pixel, and between the channels of two groups
  int64_t left = 0, width = 0;    // pixels of padding before a row, and of a row
  int64_t pad_at = 0, plane = 0;  // plane: bytes to the high bytes
  int64_t bytes = 0;
};
QuantCopy quant_copy(const QuantWindow& window, const QuantInput& input);
// Bytes that run_quant needs beside.
int64_t quant_scratch(const QuantWindow& window, const QuantInput& input);
// Where results go. Steps beyond those of a dense tensor: a phase of a transposed convolution.
struct QuantResult {
  std::byte* data = nullptr;
  int64_t step_x = 0, step_y = 0, step_batch = 0;  // bytes
};
// Whether the filter is small enough: about 500 taps, 4,000 of a depthwise one.
bool quant_fits(const QuantWindow& window);
void run_quant(const QuantWindow& window, const std::byte* packed, const QuantInput& input,
               const QuantOutput& output, const QuantResult& result, std::byte* scratch, Pool& pool,
               const QuantKernels& kernels = quant_kernels());

}  // namespace sixfold::cpu
