// Sums and products with constants, or with a sigmoid, that the library treats in ways of their own.
#pragma once

#include <optional>

#include "sixfold/emulator/kernel.h"

namespace sixfold::emulator {

// Fixed point, by the op's type:
//   nothing added: stored numbers are moved as they are, whatever the encodings say
//   one number for all, with 8 bits: a table of the exact results, rounded to the nearest
//   x * sigmoid(x) with 8 bits: a table of x's, too
// Nothing where the op is none of these.
Result<std::optional<Step>> prepare_with_constant(const OpView& op, Prepare& prepare);

}  // namespace sixfold::emulator
