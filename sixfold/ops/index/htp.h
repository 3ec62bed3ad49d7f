// Index operands on the NPU: 32 bits, never negative.
#pragma once

#include "sixfold/ops/shape/htp.h"

namespace sixfold::htp {

// The index, counted from the start. Only what may be negative is looked at: constants now, data by a where.
ValueId from_start(Htp& h, ValueId index, int64_t extent);

// Several indices of adjacent axes as one: sum of index[k] * stride[k], all broadcast, of rank 1.
ValueId joint_index(Htp& h, std::span<const ValueId> indices, std::span<const int64_t> extents,
                    const Shape& shape);

// scatter with a reduction that the device lacks, as comparisons of every index with every place.
Match scatter_compared(Htp& h, ValueId index, ValueId src);

}  // namespace sixfold::htp
