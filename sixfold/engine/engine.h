// The CPU engine over a graph: constants fold with it, calibration and `sixfold run` use it.
#pragma once

#include <memory>

#include "sixfold/execute/executor.h"
#include "sixfold/graph/graph.h"

namespace sixfold {

// The graph as a flat program; every node must be canonical and every shape static.
Result<Program> to_program(const Graph& graph);

// One op on given tensors, now.
Result<std::vector<Tensor>> evaluate(Op op, std::span<const Tensor> inputs, const Attrs& attrs);

}  // namespace sixfold
