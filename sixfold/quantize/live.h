// Which part of a value those who read it can tell apart: below -3 a hardswish gives nothing but zeros,
// beyond 6 a sigmoid of 8 bits nothing but ones. What lies outside needs no place on a grid.
#pragma once

#include <functional>

#include "sixfold/graph/graph.h"
#include "sixfold/quantize/observations.h"

namespace sixfold {

// By value; infinite ends: all of it. step: of a value's grid, 0 where it has none.
std::vector<Range> find_live_ranges(const Graph& graph, const std::function<double(ValueId)>& step);

}  // namespace sixfold
