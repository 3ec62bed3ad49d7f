// Floats between two ops: sums of 32 bits that the matrix unit does not round, and functions that it
// computes.
#pragma once

#include <map>
#include <span>

#include "sixfold/emulator/wiring.h"

namespace sixfold::emulator {

// A MatMul hands on its sums of 32 bits to a sum with a number for each column, if that alone reads it.
//
// A Sigmoid, Tanh or Gelu behind a convolution, a product or a sum of two whole tensors is the matrix unit's
// (TensorDef::is_product), whatever reshapes lie between; but not all of those that read lines of more than
// 32 points. What it reads are sums as well, where nothing else reads them; x * sigmoid(x) is rounded once.
void widen_floats(std::span<const TensorDef> tensors, std::span<const OpDef> ops, const Wiring& wiring,
                  std::map<uint32_t, TensorDef>& out);

}  // namespace sixfold::emulator
