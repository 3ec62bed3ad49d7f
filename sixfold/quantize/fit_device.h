// What the device's arithmetic asks of encodings, so that it computes what the graph says: its own roundings
// are the same for all rows, and what is alike everywhere adds up where noise would not.
#pragma once

#include "sixfold/graph/graph.h"

namespace sixfold {

// With 8 bits a softmax cuts the scale of its result to a multiple of 2^-16, and that of its operand, times
// log2 e, to 8 bits. The least grids not below the given one that are so already, or that it moves by
// nothing.
Encoding fit_softmax_result(const Encoding& grid);
Encoding fit_softmax_operand(const Encoding& grid);
// With 16 bits a logarithm's result has steps that are not too fine (kFinestLog).
Encoding fit_log_result(const Encoding& grid);

// With -1 or 1 at a number of its own where it reaches them: the next one would be outside of an asin's
// domain.
Encoding fit_arc_operand(const Encoding& grid);

// Of a constant that is added to a value of 16 bits: the device multiplies numbers of either operand with
// integers of 15 bits or less, and a constant's fine steps would leave few of them, off by steps of the sum.
// Steps of the sum, halved some times, have exact ones.
Encoding fit_addend(const Encoding& grid, const Encoding& sum);

// Offsets of layer norms are added in steps of the result. In a graph with encodings they become such
// multiples; convolutions and linear layers that read the result take the difference into their biases.
void fit_norm_offsets(Graph& quantized);

}  // namespace sixfold
