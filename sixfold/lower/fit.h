// Encodings that calibration did not choose: of constants that come without one, and of values between two
// ops.
#pragma once

#include <optional>

#include "sixfold/graph/graph.h"
#include "sixfold/qnn/types.h"

namespace sixfold {

// The range of data, zero included, on all steps of storage: unsigned ones from its minimum to its maximum,
// signed ones symmetric.
Encoding fitted(const Tensor& data, DType storage);

// A grid from the same least number on, with these steps, if those of the tensor are finer.
std::optional<qnn::ScaleOffset> coarser(const qnn::TensorSpec& tensor, float finest);

}  // namespace sixfold
