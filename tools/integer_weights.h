// Weights as integers beside halves: --precision fp16a8w.
#pragma once

#include "sixfold/quantize/weights.h"
#include "tools/plan.h"

namespace sixfold::tools {

// Gives the weights of a canonical graph 8 bits and plans it. Where the device does not multiply halves with
// integers (it does so for linear layers and filters of one tap), weights stay float rather than the node on
// the CPU, which is told.
Result<Plan> plan_integer_weights(Graph& canonical, const WeightScheme& scheme, Device& device,
                                  const PlanOptions& options, bool strict, std::vector<std::string>& notes);

}  // namespace sixfold::tools
