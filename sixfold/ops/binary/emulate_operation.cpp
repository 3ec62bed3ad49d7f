// ElementWiseBinary on the emulator: the ops of two operands by number.
#include "sixfold/emulator/op_table.h"

namespace sixfold::emulator {
namespace {

constexpr std::string_view kOperations[] = {
    "ElementWiseAdd",       "ElementWiseAnd",          "ElementWiseDivide",
    "ElementWiseEqual",     "ElementWiseFloorDiv",     "ElementWiseFmod",
    "ElementWiseGreater",   "ElementWiseGreaterEqual", "ElementWiseLess",
    "ElementWiseLessEqual", "ElementWiseMaximum",      "ElementWiseMinimum",
    "ElementWiseMod",       "ElementWiseMultiply",     "ElementWiseNotEqual",
    "ElementWiseOr",        "ElementWisePower",        "ElementWiseSquaredDifference",
    "ElementWiseSubtract",  "ElementWiseXor"};

OpView named(const OpView& op) {
  OpView out = op;
  out.type = kOperations[op.u32("operation", 0)];
  return out;
}

}  // namespace

Status check_operation(const OpView& op, const DeviceModel& device) {
  const uint32_t n = op.u32("operation", UINT32_MAX);
  if (n >= std::size(kOperations))
    return unsupported("operation is ", n, ", expected 0 to ", std::size(kOperations) - 1);
  return check_op(named(op), device);
}

Result<Step> prepare_operation(const OpView& op, Prepare& prepare) {
  const OpView as = named(op);
  return find_op(as.type)->prepare(as, prepare);
}

}  // namespace sixfold::emulator
