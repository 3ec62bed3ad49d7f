// What upsample's loops share: for every output index of an axis, which input indices it mixes and with what
// weights.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sixfold/base/dtype.h"

namespace sixfold::cpu::image {

struct Axis {
  int64_t in = 1, out = 1;
  int64_t taps = 1;            // per output
  std::vector<int32_t> index;  // [tap][out], always inside the input
  std::vector<double> weight;  // [tap][out]; float values unless the tensor is f64
  std::vector<float> weight_f32;
  std::vector<int32_t> count;  // [out], taps in use; the others weigh 0
};

struct AxisSpec {
  int64_t in, out;
  double scale;  // output / input as the model gave it; 0: from the extents
  bool align_corners, antialias;
  std::string mode;
};
Axis resize_axis(const AxisSpec& spec, DType dtype);

// All images have three spatial axes here; missing leading ones have extent 1.
struct Plan {
  DType dtype = DType::none;
  bool copy = false;  // nearest: one tap of weight 1
  int64_t batch = 0, channels = 0;
  std::array<Axis, 3> axes;
  bool channels_last = false;
  std::array<int64_t, 5> in_strides{}, out_strides{};  // batch, channel, spatial
};

// Fast loops for f32, compiled for several instruction sets (cpu_f32.cpp). line: an input row of floats per
// task.
void resize_planes_f32(const Plan& plan, const float* in, float* out, float* line, int64_t begin,
                       int64_t end);
void resize_channels_last_f32(const Plan& plan, const float* in, float* out, int64_t begin, int64_t end);

}  // namespace sixfold::cpu::image
