// What a value can be, whatever the model reads: a sigmoid's result lies between 0 and 1, the mean of what a
// relu gives is never below 0. Samples may show less; room beyond it would be for nothing.
#pragma once

#include "sixfold/graph/graph.h"
#include "sixfold/quantize/observations.h"

namespace sixfold {

// By value; infinite ends: nothing is known.
std::vector<Range> find_bounds(const Graph& graph);

}  // namespace sixfold
