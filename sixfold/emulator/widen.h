// What the device keeps between two ops with more bits than their tensor has.
#pragma once

#include <map>
#include <span>

#include "sixfold/emulator/graph.h"

namespace sixfold::emulator {

// A convolution of 8 bits whose only reader is a HardSwish hands it its sums before they are rounded to the
// tensor between them. Such a tensor has 32 parts for each of its steps here, and room beyond both ends of
// its grid. By the tensor's number: what prepare sees of it.
std::map<uint32_t, TensorDef> widened_tensors(std::span<const TensorDef> tensors, std::span<const OpDef> ops);

}  // namespace sixfold::emulator
