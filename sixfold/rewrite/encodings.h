// Encodings instead of quantize and dequantize: the graph computes with reals, and its values say on which
// grid they lie.
#pragma once

#include "sixfold/rewrite/patch.h"

namespace sixfold {

// What a quantize or dequantize node says; an error when its scales are data, or in an order that no Encoding
// has.
Result<Encoding> encoding_of(const Graph& graph, const Node& node);

// quantize -> dequantize pairs become encodings of the value before them. A second grid for a value that has
// one becomes a convert node. dequantize(constant) stays, and its result has the encoding: a weight's
// integers. Integers that are inputs or outputs of the model stay integers, and have the encoding too. Nodes
// whose scales are not known stay as they are.
Status fold_quantization(Graph& graph);

// Activations on grids of signed bytes lie on unsigned ones instead, at the same steps: the device has most
// ops for those alone, as convolutions of more than one tap by weights with a scale for each channel.
// [htp.signed.1]
void count_from_zero(Graph& graph);

// relu(conv(x)) with a grid for the relu alone, as quantizers write what one op of theirs computes: the
// convolution has that grid too. Likewise other sums and products of values on grids, and clamps.
void share_grid_of_bounds(Graph& graph);

// where(true, a, b)  ->  a
Match choose_known(const Graph& graph, const Node& node);

// After rewriting: ops that only move data keep the grid of their operand, with a convert after or before
// them where the model says another; what a rule put between two such ops has the grid of what it moves.
Status settle_encodings(Graph& graph);

// relu(x) and clamp(x) whose bounds lie at the ends of x's grid or beyond, on that same grid, are x: the grid
// has cut off already. Qualcomm's library (2.49) computes a convolution of 2- or 4-bit weights with 16-bit
// operands 1/16 too small when it is left to find that out.  [htp.conv.4bit.1]
Status drop_idle_bounds(Graph& graph);

}  // namespace sixfold
