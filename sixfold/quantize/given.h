// Grids that are not chosen by ranges: the device's own, and those that came with a model or a file.
#pragma once

#include "sixfold/quantize/plan.h"

namespace sixfold {

// 0..1 and -1..1 as the device's own sigmoid and tanh give them.
Encoding unit_grid(int bits);
Encoding signed_unit_grid();

// Encodings of the graph, around a node on grids, that break a rule of the device: into the violations.
void tell_given(const Graph& graph, const Node& node, QuantizePlan& plan);

}  // namespace sixfold
