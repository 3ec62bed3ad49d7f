// Bias correction: rounding shifts the mean of a product's channels; its bias takes that back.
#pragma once

#include "sixfold/graph/graph.h"
#include "sixfold/quantize/samples.h"

namespace sixfold {

struct BiasOptions {
  size_t samples = 8;  // at most
  size_t threads = 0;
};

// real: the graph that was calibrated; quantized: the same with encodings, perhaps with more nodes. Changes
// the biases of convolutions and linear layers in it, and adds them where there were none. Returns how many.
Result<size_t> correct_biases(const Graph& real, Graph& quantized, const Samples& samples,
                              const BiasOptions& options = {});

}  // namespace sixfold
