// Weights as 8-bit integers: the largest magnitude of a channel, or of the tensor, is 127.
#pragma once

#include "sixfold/graph/graph.h"

namespace sixfold {

struct WeightScheme {
  bool per_channel_conv = true;
  bool per_channel_linear = false;
};

// Gives the constant weights of convolutions and linear layers encodings; returns these nodes.
std::vector<NodeId> quantize_weights(Graph& graph, const WeightScheme& scheme);

// The range of a weight as the symmetric encoding of so many bits. axis -1: one scale.
Encoding weight_encoding(const Tensor& weight, int32_t axis, int bits);
// A scale for each block of so many input channels of a channel; axis is the output channels', 0 or 1.
Encoding block_encoding(const Tensor& weight, int32_t axis, int64_t block, int bits);

}  // namespace sixfold
