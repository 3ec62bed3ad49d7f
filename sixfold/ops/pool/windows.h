// What pooling kernels share: for every output index, which input positions its window covers.
//
// All pools run as three-dimensional ones: missing leading axes have extent 1. A window is given by tables,
// so that strided windows (max_pool, avg_pool) and adaptive ones run through the same loops.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sixfold/base/dtype.h"
#include "sixfold/cpu/kernel.h"

namespace sixfold::cpu::pool {

struct Window {
  int64_t begin = 0;  // first position inside the input
  int64_t count = 0;  // how many positions inside the input, `step` apart
  int64_t size = 0;   // what avg_pool divides by: with padding, when padding counts
  int64_t first = 0;  // torch's start, where an index points when nothing in the window is larger than -inf
};

struct Axis {
  int64_t in = 1, out = 1;
  int64_t step = 1;  // dilation
  std::vector<Window> windows;
  // Strided windows: tap t of output o is at o * stride + t * step - padding. 0 taps: adaptive.
  int64_t taps = 0, stride = 1, padding = 0;
};

struct Plan {
  DType dtype = DType::none;
  bool max = false;  // else average
  // Which of them, in a build that keeps maxima at all.
  bool takes_max() const { return (keeps(Op::max_pool) || keeps(Op::adaptive_max_pool)) && max; }
  int64_t divisor = 0;  // of an average; 0: the window's size
  int64_t batch = 0, channels = 0;
  std::array<Axis, 3> axes;
  bool channels_last = false;  // both sides; only where the fast loops run
  // In elements: batch, channel, then the three spatial axes.
  std::array<int64_t, 5> in_strides{}, out_strides{}, index_strides{};
};

// The fast loops for f32, compiled for several instruction sets (cpu_f32.cpp).
// Channels-last: rows [begin, end) of batch * out[0] * out[1], channels [c_begin, c_end) of each.
void channels_last_f32(const Plan& plan, const float* in, float* out, int64_t begin, int64_t end,
                       int64_t c_begin, int64_t c_end);
// Row-major: rows [begin, end) of batch * channels * out[0] * out[1].
void planes_f32(const Plan& plan, const float* in, float* out, int64_t begin, int64_t end);

}  // namespace sixfold::cpu::pool
