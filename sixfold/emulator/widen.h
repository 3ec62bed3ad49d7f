// What the device keeps between two ops with more bits than their tensor has.
#pragma once

#include <map>
#include <span>

#include "sixfold/emulator/graph.h"

namespace sixfold::emulator {

// A convolution or linear layer whose only reader is a HardSwish hands it its sums, whatever the tensor
// between them would hold: 32 bits with a scale for each channel, with 16 bits those that are cut to 256. By
// the tensor's number: what prepare sees of it. Floats: widen_float.h. A linear layer's numbers of 8 bits
// that become floats are told whether they are in tiles when they do. A Relu that alone reads a convolution
// or a linear layer sees its sums as well: these give what the Relu gives, with 8 bits, where it has a zero
// point, of finer parts of the sums. What is converted from 16 bits to 16 is told whether it lies in tiles:
// what a convolution, a linear layer, a product with one matrix, a sum, a norm, a softmax or a mean gave
// does, also behind a reshape that only adds or drops axes of one (behind a linear layer one that keeps the
// rows, too). Behind a transposition it is converted as it was before: in tiles what a convolution, a linear
// layer or a softmax gave, else by places there. With the last axis first it lies in tiles, if an op made it.
// A product of 16 bits with one number that is read in tiles alone is a conversion of the other operand,
// there. A sum of 16 bits is in tiles if its second operand is, and its first is as well or is a sum or
// difference: what a linear layer, a product with one constant matrix (but of 12, 20 or 28 rows), a
// conversion from 8 bits (but of one tile's 8 rows) or such a sum gave. A Prelu that alone reads a
// convolution or a linear layer (with 16 bits no depthwise one of one tap), also behind reshapes that keep
// the channels, sees its sums. A product with one number that a Softmax alone reads is none: the Softmax has
// the number in its scale.
std::map<uint32_t, TensorDef> widened_tensors(std::span<const TensorDef> tensors, std::span<const OpDef> ops);

}  // namespace sixfold::emulator
