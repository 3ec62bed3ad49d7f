// A row-major tensor seen from one axis: [outer][extent][inner].
#pragma once

#include <algorithm>
#include <cstdint>

#include "sixfold/base/dim.h"

namespace sixfold::cpu {

struct AxisSplit {
  int64_t outer = 1, extent = 1, inner = 1;
};

// Rank 0 counts as one axis of extent 1.
inline AxisSplit split_at(const Shape& shape, int64_t axis) {
  AxisSplit s;
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    (at < axis ? s.outer : at == axis ? s.extent : s.inner) *= shape[i];
  }
  return s;
}

// How many items one task should take when each touches `work` elements: about 32k elements, so that waking a
// thread costs less than it brings.
inline int64_t grain_for(int64_t work) { return std::max<int64_t>(1, 32768 / std::max<int64_t>(work, 1)); }

}  // namespace sixfold::cpu
