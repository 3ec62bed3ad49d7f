// Values that so many bits do not tell: a few large elements take the range, and most others lie within a
// step or two of zero (residuals with outliers, squares, spectra). Around them nodes compute with 16 bits
// instead of 8, or with halves instead of 16.
#pragma once

#include <set>

#include "sixfold/quantize/plan.h"

namespace sixfold {

// Of NodeId::index, for QuantizeOptions::wide or in_float.
std::set<uint32_t> find_wide_nodes(const Graph& graph, const QuantizePlan& plan, const Observations& seen,
                                   int bits);

// Whether halves hold all that the node reads and gives.
bool fits_halves(const Graph& graph, const Node& node, const Observations& seen);

}  // namespace sixfold
