// The numbers that integers on a grid stand for.
#pragma once

#include "sixfold/graph/graph.h"

namespace sixfold {

// By tensor, channel or block, in f32.
Tensor reals_of(const Tensor& integers, const Encoding& e);

// dequantize(constant) whose result has an encoding: a weight's integers, which are not computed but read by
// whoever uses them. Null where the value is anything else.
const Node* stored_integers(const Graph& graph, ValueId value);
inline bool is_stored_weight(const Graph& graph, const Node& node) {
  return node.op == Op::dequantize && stored_integers(graph, node.output());
}

}  // namespace sixfold
