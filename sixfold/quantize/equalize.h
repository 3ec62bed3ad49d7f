// Channels brought to like ranges before anything is rounded: what one layer's channel is divided by, the
// next layer's weights are multiplied with, so the float graph computes the same.
#pragma once

#include "sixfold/graph/graph.h"
#include "sixfold/quantize/observations.h"

namespace sixfold {

// Cross-layer equalization: of a convolution or linear layer, perhaps a relu, and the only product that reads
// it, each channel's weights get the same largest magnitude on both sides. Returns how many pairs.
size_t equalize_weights(Graph& graph);

// SmoothQuant: channels of a norm or product that only products read are divided by
// most(activation)^alpha / most(weight)^(1 - alpha). seen: of this graph, with channels. Returns how many.
size_t smooth_activations(Graph& graph, const Observations& seen, float alpha);

}  // namespace sixfold
