// Better integers for weights: scales and roundings that change what a layer gives least, by what it reads.
//
// With H = E[x x'] over the layer's inputs, rounding a row of weights w to q costs (q - w)' H (q - w). Scales
// are searched with the diagonal of H (SeqMSE's search); then each weight goes up or down (AdaRound's choice)
// where that lowers the whole, one after the other until nothing is gained: no gradients, the same result
// every time.
#pragma once

#include "sixfold/graph/graph.h"
#include "sixfold/quantize/samples.h"

namespace sixfold {

struct RoundingOptions {
  bool search_scales = false;
  bool choose_rounding = false;
  size_t samples = 16;   // at most
  size_t rows = 512;     // inputs of a layer to remember, at most
  double most_work = 0;  // multiplications that a layer may take; 0: any number. Others keep their rounding.
  size_t threads = 0;
};

struct RoundingReport {
  size_t layers = 0;  // that were improved
  double before = 0,
         after = 0;  // sums of (q - w)' H (q - w) over the layers, each relative to the sum of w w diag(H)
};

// real: the graph that was calibrated. In quantized, weights of convolutions and linear layers that have an
// encoding of their own get other scales and lie on their grids afterwards.
Result<RoundingReport> improve_weights(const Graph& real, Graph& quantized, const Samples& samples,
                                       const RoundingOptions& options);

}  // namespace sixfold
