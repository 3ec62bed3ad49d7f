// Ops whose weights or bias are computed, where the kernel wants them packed: prepared in each run, as if
// what was computed were constants.
#pragma once

#include "sixfold/emulator/kernel.h"

namespace sixfold::emulator {

// Whether an input after the first is there and no constant.
bool has_computed_weights(const OpView& op);

// prepare is the op's own function, which is called again in each run, then with constants alone.
Result<Step> prepare_late(const OpView& op, PrepareFunction prepare, Prepare& room);

}  // namespace sixfold::emulator
