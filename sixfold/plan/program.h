// A flat program: values and steps in order, static shapes. What a compiler's graph and a loaded file both
// become.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sixfold/base/attr.h"
#include "sixfold/base/tensor.h"
#include "sixfold/ops/op.h"

namespace sixfold {

using Slot = uint32_t;  // index into FlatProgram::values
inline constexpr Slot kNoSlot = UINT32_MAX;

struct ProgramValue {
  // output: a temporary in memory that the caller gives (PlanOptions::external_outputs)
  enum Kind : uint8_t { temporary, input, constant, state, output } kind = temporary;
  DType dtype = DType::none;
  Shape shape;
  Tensor data;  // constant: row-major data; state: its initial value
  std::string name;
};

struct ProgramStep {
  Op op;
  std::vector<Slot> inputs;  // kNoSlot: an optional operand that is absent
  std::vector<Slot> outputs;
  Attrs attrs;
  std::string name;  // for messages and profiles
};

struct FlatProgram {
  std::vector<ProgramValue> values;
  std::vector<ProgramStep> steps;
  std::vector<Slot> inputs;
  std::vector<Slot> outputs;
  struct Mutation {
    Slot state;  // or an input: then the new value is only readable as `next`
    Slot next;
  };
  std::vector<Mutation> mutations;
};

}  // namespace sixfold
