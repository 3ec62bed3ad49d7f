// Bias correction: rounding shifts the mean of a product's channels; its bias takes that back.
#pragma once

#include <span>

#include "sixfold/graph/graph.h"
#include "sixfold/quantize/samples.h"

namespace sixfold {

struct BiasOptions {
  size_t samples = 8;  // at most
  size_t threads = 0;
};

// What is to be added to the bias of a convolution or a linear layer, by channel. A mean that differs from
// sample to sample as much as it is large is noise, and is left out as far as it is.
struct BiasCorrection {
  NodeId node;
  std::vector<double> shift;
  // No product follows: where a sigmoid or softmax makes the model's answer of it, elements far from any
  // decision have most of the mean, and correcting it may do harm.
  bool last = false;
};

// By value: whether an output is reached from it without another product.
std::vector<bool> find_last_values(const Graph& graph);

// real: the graph that was calibrated; quantized: the same with encodings, perhaps with more nodes.
Result<std::vector<BiasCorrection>> find_bias_corrections(const Graph& real, const Graph& quantized,
                                                          const Samples& samples,
                                                          const BiasOptions& options = {});

// Changes biases, and adds them where there were none. Returns how many.
size_t correct_biases(Graph& quantized, std::span<const BiasCorrection> corrections, bool last = true);

}  // namespace sixfold
