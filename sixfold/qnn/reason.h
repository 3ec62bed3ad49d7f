// Why the library refuses an op, from its log, as one sentence.
#pragma once

#include <span>
#include <string>

#include "sixfold/qnn/types.h"

namespace sixfold::qnn {

// Ids that tensors of an op have while it is validated, so that "Tensor 1 and 65537 have mismatching rank"
// can be said as "in[0] and out[0] ...".
inline constexpr uint32_t kInputIds = 1, kOutputIds = 0x10001;

// Lines as LogCapture has them. Empty when none says anything.
std::string refusal(std::span<const std::string> lines);

}  // namespace sixfold::qnn
