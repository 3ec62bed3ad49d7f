// Shape arithmetic shared by inference rules. Extents may be symbolic.
#pragma once

#include "sixfold/base/attr.h"
#include "sixfold/base/dim.h"
#include "sixfold/base/result.h"

namespace sixfold {

// numpy broadcasting. Of two symbolic extents that may differ the first is taken: the exporter's guards say
// they agree.
Result<Dims> broadcast(const Dims& a, const Dims& b);

// Extent that a sliding window leaves: floor((in + before + after - dilation * (kernel - 1) - 1) / stride) +
// 1, and with ceil_mode rounded up, except that no window starts beyond the input and its left padding (as
// torch).
Dim window_extent(const Dim& in, int64_t kernel, int64_t stride, int64_t before, int64_t after,
                  int64_t dilation, bool ceil_mode = false);

// The extent that attributes start, end and step (of slice and slice_scatter) cut out of `extent`; an error
// when the bounds do not lie in it.
Result<Dim> slice_length(const Attrs& attrs, const Dim& extent);

}  // namespace sixfold
