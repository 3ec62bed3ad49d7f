// Biases that the device's coarse units hold.
#pragma once

#include "sixfold/graph/graph.h"
#include "sixfold/quantize/observations.h"

namespace sixfold {

// The device counts biases of 16-bit activations in multiples of 256 units of the sum (65536 where weights
// have 16 bits too), so a layer is off by up to half of one everywhere; of a mask's last layer that is a
// sixteenth of a logit. Where such a layer has few outputs and reads a value with a grid of its own that
// begins at zero, that grid gets finer steps, for which the biases are such multiples. It keeps all that
// samples showed. real: the same graph without encodings but those that it came with, which stay.
void settle_biases(const Graph& real, const Observations& seen, Graph& quantized);

}  // namespace sixfold
