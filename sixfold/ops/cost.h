// What an op costs: multiply-accumulates and bytes moved, from types alone. Static shapes; 0 where a size is
// symbolic.
#pragma once

#include "sixfold/graph/graph.h"

namespace sixfold {

struct Cost {
  int64_t macs = 0;   // of products only; elementwise work is counted by its bytes
  int64_t bytes = 0;  // operands read once and results written once, constants included
};
Cost cost_of(const Graph& graph, const Node& node);

}  // namespace sixfold
