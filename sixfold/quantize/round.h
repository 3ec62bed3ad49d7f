// Values as their encodings say them: what the device's integers stand for.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sixfold/cpu/pool.h"
#include "sixfold/graph/graph.h"

namespace sixfold {

// To the nearest integer, ties to even, for |x| < 2^22; vector code everywhere, unlike nearbyint.
inline float nearest(float x) { return (x + 12582912.0f) - 12582912.0f; }

// scale * (clamp(round(x / scale) + zero_point) - zero_point), in place; halves to even. One scale.
void round_to(const Encoding& encoding, float* x, int64_t n, cpu::Pool& pool);

// The same for a constant, by whatever axis and blocks the encoding has. f32.
Tensor rounded(const Tensor& data, const Encoding& encoding);

// Which scale goes with element i of a row-major tensor.
class ScaleIndex {
 public:
  ScaleIndex(const Shape& shape, const Encoding& encoding);
  size_t operator()(int64_t i) const {
    if (channels_ == 0) return 0;
    const auto channel = static_cast<size_t>(i / inner_ % channels_);
    return block_ ? channel * blocks_ + static_cast<size_t>(i / inner1_ % extent1_ / block_) : channel;
  }
  // So many elements after each other, from a multiple of it on, have the same scale.
  int64_t run() const {
    if (channels_ == 0) return INT64_MAX;
    return block_ ? std::min(inner_, extent1_ % block_ == 0 ? inner1_ * block_ : inner1_) : inner_;
  }

 private:
  int64_t inner_ = 1, channels_ = 0, inner1_ = 1, extent1_ = 1, block_ = 0;
  size_t blocks_ = 0;
};

// A copy whose constants are rounded to their encodings, biases of products to 32-bit integers on the grid of
// operand times weight. A table whose rows have its own encoding once they are taken stays as it is.
struct RoundedConstants {
  bool weights = true;  // of convolutions and linear layers
  bool biases = true;
};
Graph with_rounded_constants(const Graph& graph, cpu::Pool& pool, const RoundedConstants& which = {});

}  // namespace sixfold
