// The CPU engine over a graph: constants fold with it, calibration and `sixfold run` use it.
#pragma once

#include <memory>

#include "sixfold/execute/evaluate.h"
#include "sixfold/execute/executor.h"
#include "sixfold/graph/graph.h"

namespace sixfold {

// The graph as a flat program; every node must be canonical and every shape static. values, when asked for:
// which value of the graph each slot is.
Result<FlatProgram> to_program(const Graph& graph, std::vector<ValueId>* values = nullptr);

}  // namespace sixfold
