// What makes the ranges of calibration doubtful, in words: samples that show nothing, or what no sample
// should.
#pragma once

#include <string>
#include <vector>

#include "sixfold/graph/graph.h"
#include "sixfold/quantize/observations.h"

namespace sixfold {

// A sentence for each kind of doubt, with the inputs or layers where it begins; none: nothing is odd.
std::vector<std::string> doubts_about(const Graph& graph, const Observations& seen);

}  // namespace sixfold
