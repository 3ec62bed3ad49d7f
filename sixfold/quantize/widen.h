// Values that 8 bits do not tell: a few large elements take the range, and most others lie within a step or
// two of zero (residuals with outliers, squares, spectra). Around them nodes compute with 16 bits.
#pragma once

#include <set>

#include "sixfold/quantize/plan.h"

namespace sixfold {

// Of NodeId::index, for QuantizeOptions::wide.
std::set<uint32_t> find_wide_nodes(const Graph& graph, const QuantizePlan& plan, const Observations& seen);

}  // namespace sixfold
