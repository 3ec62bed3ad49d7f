// Index operands on the NPU: 32 bits, never negative.
#pragma once

#include "sixfold/ops/shape/htp.h"

namespace sixfold::htp {

// The index, counted from the start. Only what may be negative is looked at: constants now, data by a where.
ValueId from_start(Htp& h, ValueId index, int64_t extent);

// Several indices of adjacent axes as one: sum of index[k] * stride[k], all broadcast, of rank 1.
ValueId joint_index(Htp& h, std::span<const ValueId> indices, std::span<const int64_t> extents,
                    const Shape& shape);

// The part of x that an index covers, whose other axes may be shorter than x's: only it changes.
class Region {
 public:
  Region(Htp& h, ValueId x, const Shape& places, int64_t dim);
  ValueId part() const { return parts_.back(); }
  ValueId put_back(ValueId y);  // x with y in its place

 private:
  Htp& h_;
  Shape places_;
  std::vector<ValueId> parts_;
  std::vector<int64_t> cut_;
};

// scatter with a reduction that the device lacks, as comparisons of every index with every place.
Match scatter_compared(Htp& h, ValueId index, ValueId src);

}  // namespace sixfold::htp
