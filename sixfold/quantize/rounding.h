// Better integers for weights: scales and roundings that change what a layer gives least, by what it reads.
//
// With H = E[x x'] over the layer's inputs, rounding a row of weights w to q costs (q - w)' H (q - w). Scales
// are searched with the diagonal of H (SeqMSE's search); then each weight goes up or down (AdaRound's choice)
// where that lowers the whole, one after the other until nothing is gained: no gradients, the same result
// every time. Weights are chosen in blocks, for many channels at once, so that nearly all of the work is
// products of matrices; a layer with more inputs than rows were kept never makes its H.
#pragma once

#include "sixfold/graph/graph.h"
#include "sixfold/quantize/layer_rows.h"

namespace sixfold {

struct RoundingOptions {
  bool search_scales = false;
  bool choose_rounding = false;
  bool only_last = false;  // only layers of whose result a sigmoid makes the answer
  bool shift_biases =
      false;             // biases take back what errors make of the inputs' mean, so that it may be large
  int passes = 2;        // over a layer's weights, at most
  double most_work = 0;  // multiplications of all layers; 0: any number. The dearest keep their rounding.
  size_t threads = 0;
};

struct RoundingReport {
  size_t layers = 0;             // that were improved
  std::vector<ValueId> weights;  // theirs
  double before = 0,
         after = 0;  // sums of (q - w)' H (q - w) over the layers, each relative to the sum of w w diag(H)
};

// In quantized, weights of convolutions and linear layers that have an encoding of their own get other scales
// and lie on their grids afterwards.
Result<RoundingReport> improve_weights(Graph& quantized, const LayerRows& rows,
                                       const RoundingOptions& options);

}  // namespace sixfold
