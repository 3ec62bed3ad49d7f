// Ranges of what the last layer before a sigmoid reads, chosen by what the answer loses.
//
// Where a mask or a score is sure of itself the sigmoid forgets how sure, and there its layer's operands are
// largest: to keep them takes the range from those that decide. What a value's own error asks for is three
// times too wide then.
#pragma once

#include <functional>

#include "sixfold/quantize/meter.h"
#include "sixfold/quantize/plan.h"

namespace sixfold {

// The values between the product that a sigmoid of the outputs reads and the products before it, the nearest
// to the output first, one of each grid that is computed on its own.
std::vector<ValueId> read_before_last_sigmoids(const Graph& graph);

// A copy in which only these values are rounded: what they cost by themselves, whatever the others do.
Graph with_only(const Graph& quantized, std::span<const ValueId> values);

// Each value is tried with all others in float, where what lies before it does not hide what it costs: its
// range is made smaller as long as that gains.
struct CutRanges {
  RangeChoice ranges;                 // with RangeChoice::cut
  double least_db = 200, now_db = 0;  // of the value that cost most, before and after
};
// quantized: what make gives for the ranges as they are. At most so many tries.
Result<CutRanges> cut_last_ranges(const Graph& quantized, std::span<const ValueId> values,
                                  const RangeChoice& ranges,
                                  const std::function<Result<Graph>(const RangeChoice&)>& make, Meter& meter,
                                  double tries);

}  // namespace sixfold
