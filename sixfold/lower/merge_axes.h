// Fewer axes for an elementwise op: neighbours that every operand has in full, or broadcasts, become one.
// Many ops of the device take four axes.
#pragma once

#include "sixfold/lower/lowering.h"

namespace sixfold {

struct MergedAxes {
  std::vector<std::vector<uint32_t>> operands;
  std::vector<uint32_t> result;
};
// Operands broadcast to result from the right.
MergedAxes merge_axes(const std::vector<std::vector<uint32_t>>& operands,
                      const std::vector<uint32_t>& result);

// out(0) = type(operands), all with axes merged.
void add_merged(Lowering& l, const char* type, std::vector<TensorRef> operands,
                std::vector<Param> params = {});

// The extents before an axis, of it, and after it.
std::vector<uint32_t> around_axis(const std::vector<uint32_t>& dims, size_t axis);

// x with so much of a number before and after it along an axis. With three axes, so that the library does not
// make it the padding of the filter or the window that reads it.
TensorRef padded_apart(Lowering& l, TensorRef x, size_t axis, uint32_t before, uint32_t after, float value);

// y: x up to an end along each axis, of which every element at a multiple of the step is taken.
void add_slice(Lowering& l, TensorRef x, const std::vector<uint32_t>& end, const std::vector<uint32_t>& step,
               TensorRef y);
// x up to these extents.
TensorRef beginning(Lowering& l, TensorRef x, std::vector<uint32_t> dims);

}  // namespace sixfold
