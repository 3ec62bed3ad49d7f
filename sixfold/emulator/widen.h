// What the device keeps between two ops with more bits than their tensor has.
#pragma once

#include <map>
#include <span>

#include "sixfold/emulator/graph.h"

namespace sixfold::emulator {

// A convolution whose only reader is a HardSwish hands it its sums, whatever the tensor between them would
// hold: 32 bits with a scale for each channel, with 16 bits those that are cut to 256. By the tensor's
// number: what prepare sees of it. Floats: widen_float.h.
std::map<uint32_t, TensorDef> widened_tensors(std::span<const TensorDef> tensors, std::span<const OpDef> ops);

}  // namespace sixfold::emulator
