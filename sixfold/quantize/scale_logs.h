// Logarithms of powers that halves do not hold: of sound with samples of 16 bits they reach 1e12, and most of
// a spectrum lies far below that, where grids of 16 bits have no number either.
#pragma once

#include "sixfold/graph/graph.h"
#include "sixfold/quantize/observations.h"

namespace sixfold {

// Whether there is a logarithm that scale_logarithms may change.
bool has_logarithms_of_products(const Graph& graph);

// log(x) -> log(x / 2^k) + k log(2), with the largest x below 2^14: what computes x up to the last weights
// takes the factor into its constants, exactly. Returns how many.
size_t scale_logarithms(Graph& graph, const Observations& seen);

}  // namespace sixfold
