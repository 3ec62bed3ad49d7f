// Channels of images brought to like ranges before anything is rounded, so that one grid serves all of them.
//
// What a convolution's output channel is divided by, the convolutions that read it multiply their weights
// with. Between them may be whatever keeps factors: relu and its kin, pools, sums, gates, joined and cut
// channels. So channels fall into classes that have one factor: a residual network's sums tie those of many
// layers. The float graph computes the same.
#pragma once

#include "sixfold/graph/graph.h"
#include "sixfold/quantize/observations.h"

namespace sixfold {

// seen: of this graph, with channels. alpha: how much of what activations differ by weights take, 0 to 1.
// Returns how many channels are divided by something.
size_t balance_channels(Graph& graph, const Observations& seen, float alpha);

// Bits by which the mean channel that could be balanced is smaller than the largest beside it.
double imbalance_of(const Graph& graph, const Observations& seen);

}  // namespace sixfold
