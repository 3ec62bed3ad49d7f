// Encodings for constants that come without one: parameters that a rule makes, or that calibration left out.
#pragma once

#include "sixfold/graph/graph.h"

namespace sixfold {

// The range of data, zero included, on all steps of storage: unsigned ones from its minimum to its maximum,
// signed ones symmetric.
Encoding fitted(const Tensor& data, DType storage);

}  // namespace sixfold
