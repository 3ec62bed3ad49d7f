// How a reduction walks memory: axes in memory order, adjacent ones merged, so that NCHW and NHWC, one axis
// or several, become the same few loops and nothing is permuted.
#pragma once

#include <algorithm>
#include <vector>

#include "sixfold/base/small_sort.h"
#include "sixfold/cpu/kernel.h"

namespace sixfold::cpu {

struct WalkAxis {
  int64_t extent = 1;
  int64_t in_stride = 0;
  int64_t out_stride = 0;  // kept axes
};

struct Walk {
  std::vector<WalkAxis> kept;     // outermost first
  std::vector<WalkAxis> reduced;  // outermost first
  int64_t outputs = 1;            // product of kept
  int64_t count = 1;              // product of reduced: elements behind one output
  bool inner_reduced = false;     // the axis of stride 1 is reduced (the last of `reduced`), else kept
};

// dims: the reduced axes of in. out: the result, with or without them.
inline Walk plan_walk(const TensorDesc& in, const TensorDesc& out, const Shape& dims, bool keepdim) {
  struct Axis : WalkAxis {
    bool reduced = false;
  };
  std::vector<Axis> axes;
  Walk walk;
  size_t out_axis = 0;
  for (size_t i = 0; i < in.rank(); ++i) {
    const bool reduced = std::find(dims.begin(), dims.end(), static_cast<int64_t>(i)) != dims.end();
    (reduced ? walk.count : walk.outputs) *= in.shape[i];
    if (in.shape[i] != 1)
      axes.push_back({{in.shape[i], in.strides[i], reduced ? 0 : out.strides[out_axis]}, reduced});
    if (keepdim || !reduced) ++out_axis;
  }
  sort_short(axes, [](const Axis& a, const Axis& b) { return a.in_stride > b.in_stride; });
  std::vector<Axis> merged;
  for (const Axis& b : axes) {
    if (!merged.empty()) {
      Axis& a = merged.back();
      if (a.reduced == b.reduced && a.in_stride == b.extent * b.in_stride &&
          (a.reduced || a.out_stride == b.extent * b.out_stride)) {
        a = {{a.extent * b.extent, b.in_stride, b.out_stride}, a.reduced};
        continue;
      }
    }
    merged.push_back(b);
  }
  walk.inner_reduced = merged.empty() || merged.back().reduced;
  for (const Axis& a : merged) (a.reduced ? walk.reduced : walk.kept).push_back(a);
  return walk;
}

// Where flat index i of these axes lies in the input and the output.
struct Place {
  int64_t in = 0, out = 0;
};
inline Place place_of(const std::vector<WalkAxis>& axes, size_t axis_count, int64_t i) {
  Place p;
  for (size_t a = axis_count; a-- > 0;) {
    const int64_t index = a == 0 ? i : i % axes[a].extent;
    i /= axes[a].extent;
    p.in += index * axes[a].in_stride;
    p.out += index * axes[a].out_stride;
  }
  return p;
}

// f(offset) for every index of the first axis_count axes.
template <typename F>
void for_offsets(const std::vector<WalkAxis>& axes, size_t axis_count, const F& f) {
  int64_t total = 1;
  for (size_t a = 0; a < axis_count; ++a) total *= axes[a].extent;
  if (axis_count <= 1) {
    const int64_t stride = axis_count == 0 ? 0 : axes[0].in_stride;
    for (int64_t i = 0; i < total; ++i) f(i * stride);
    return;
  }
  for (int64_t i = 0; i < total; ++i) f(place_of(axes, axis_count, i).in);
}

// ops/reduce/cpu_f32.cpp: sum, mean, amax, amin, var of floats, count > 0.
std::unique_ptr<Kernel> reduce_f32(Op op, Walk walk, double correction);

// sum of squares about the mean -> variance. A divisor below 0 counts as 0, as torch has it: x/0 is inf, 0/0
// NaN.
inline double variance(double squares, int64_t count, double correction) {
  return squares / std::max(0.0, static_cast<double>(count) - correction);
}

}  // namespace sixfold::cpu
