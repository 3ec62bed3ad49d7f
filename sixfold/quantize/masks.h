// Values of attention in which a softmax forgets what is far below the rest of its row.
#pragma once

#include <vector>

#include "sixfold/graph/graph.h"

namespace sixfold {

// Whether a softmax forgets what is far below the rest of its row in this value: by value.
std::vector<bool> find_masked(const Graph& graph);

// Whether nothing but softmax along its rows reads this value: by value.
std::vector<bool> find_softmax_operands(const Graph& graph);

// -inf in constants of masks as a number that is far below all scores: a row that is masked as a whole then
// has no NaN, which a grid could not hold. Models that give zeros for such rows choose those after the
// softmax.
void finite_masks(Graph& graph);

}  // namespace sixfold
