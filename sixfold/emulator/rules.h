// What the device takes, as tables: the words of the rules are those of ops/qnn_rules.inc.
#pragma once

#include "sixfold/emulator/op_view.h"

namespace sixfold::emulator {

// Numbers of operands, parameters, types and ranks against the op's rules. An op without rules passes.
Status check_rules(const OpView& op, const DeviceModel& device);

// Fixed-point operands without a scale compute nothing: refused when an op is added, though the device's
// validation says nothing of it.
Status check_encodings(const OpView& op);

}  // namespace sixfold::emulator
