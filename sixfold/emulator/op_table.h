// The rows of ops/qnn.def.
#pragma once

#include "sixfold/emulator/kernel.h"

namespace sixfold::emulator {

struct OpEntry {
  const char* type;         // "Conv2d"
  CheckFunction check;      // null: no more than the rules say
  PrepareFunction prepare;  // null: known, and not there yet
};
std::span<const OpEntry> op_table();            // by name
const OpEntry* find_op(std::string_view type);  // null: HTP has no such op

// Everything about an op that the device decides on: rules and the row's check. Unsupported, with the reason,
// when it does not take the op or the emulator has no kernel.
Status check_op(const OpView& op, const DeviceModel& device);

// What the device's validation answers: it does not look at some things (how dims of comparisons go together,
// how many elements a bias has) that check_op refuses before they are computed with.
Status validate_op(const OpView& op, const DeviceModel& device);

}  // namespace sixfold::emulator
