// Biases of products of 16-bit activations with constant weights.
//
// The device adds the products of the activations' bytes apart and cuts the sum downwards to a multiple of
// 256, of 65536 where weights have 16 bits as well; the part of the operand's zero point is rounded to one,
// the bias cut to one towards zero (docs/emulator.md). So results lie half a multiple too low, and a bias is
// off by up to a whole one. Of a filter for each channel, whose sums are small, that is several steps of the
// result.
#pragma once

#include "sixfold/graph/precision.h"

namespace sixfold {

// Integers that bring the results of each channel to the middle of what is cut. bias: floats, or none.
// weight: floats, output channels first; null where an element of the result does not see all of its taps.
Tensor biases_of_cut_sums(const Tensor* bias, const Tensor* weight, const Encoding& x, const Encoding& w,
                          int64_t channels);

}  // namespace sixfold
