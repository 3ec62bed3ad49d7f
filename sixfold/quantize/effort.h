// What a model's runs cost: large models are tried on fewer samples, and less often.
#pragma once

#include "sixfold/graph/graph.h"

namespace sixfold {

inline constexpr double kLargeWork = 2e9;  // multiplications of a model that takes long

// Multiplications of one run, by what has weights.
double work_of(const Graph& graph);

// The same with what elementwise ops and the steps themselves take.
double cost_of(const Graph& graph, double work);

// So many samples that all of them together take about the budget.
size_t samples_for(double budget, double work, size_t least, size_t most);

}  // namespace sixfold
