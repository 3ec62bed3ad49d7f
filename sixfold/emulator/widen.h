// What the device keeps between two ops with more bits than their tensor has.
#pragma once

#include <map>
#include <span>

#include "sixfold/emulator/graph.h"

namespace sixfold::emulator {

// A convolution whose only reader is a HardSwish hands it its sums before they are rounded to the tensor
// between them. With 8 bits such a tensor has 32 parts for each of its steps here, and room beyond both ends
// of its grid; with 16 bits it is the sums themselves, of 32 bits, with a scale for each channel. By the
// tensor's number: what prepare sees of it. Floats: widen_float.h.
std::map<uint32_t, TensorDef> widened_tensors(std::span<const TensorDef> tensors, std::span<const OpDef> ops);

}  // namespace sixfold::emulator
