// Plan: a program bound to kernels and memory. Made once; running it allocates nothing.
//
//   1. layouts   convolutions want channels-last; elementwise ops follow; the rest is row-major, with
//   reorders between
//   2. kernels   one per step; a step that has no half-precision kernel is wrapped in conversions to f32
//   3. aliases   reshapes, and permutes that only rename axes, cost nothing; elementwise steps work in place
//   4. memory    lifetimes, then offsets in one arena, largest first, at the lowest place that is free
#pragma once

#include <memory>
#include <vector>

#include "sixfold/cpu/kernel.h"
#include "sixfold/plan/program.h"

namespace sixfold {

struct PlanOptions {
  bool channels_last = true;
  bool in_place = true;
  // Results that a step writes get no place in the arena: their buffers become ProgramValue::output. A result
  // that is an input, a constant or also another result stays what it is, and its reader copies it.
  bool external_outputs = false;
  // Constants that one step alone reads, and only to pack them, are let go as soon as they are packed.
  bool release_packed = false;
  Allocator* allocator = &system_allocator();  // of constants that are reordered, and of packed weights
  cpu::SharedParts* shared = nullptr;          // with other plans of the program; null: within this one
  cpu::Pool* pool = nullptr;                   // whose threads make the kernels; null: the caller's alone
};

struct PlanValue {
  cpu::TensorDesc desc;
  ProgramValue::Kind kind = ProgramValue::temporary;
  Tensor data;                // constant or state
  Slot buffer = kNoSlot;      // the value whose memory this one shares; itself if none
  size_t offset = 0;          // in the arena, for temporaries that own memory
  int first = -1, last = -1;  // steps that write and last read the buffer
};

struct PlanStep {
  Op op;
  std::vector<Slot> inputs, outputs;
  std::unique_ptr<cpu::Kernel> kernel;
  std::string name;
};

struct Plan {
  std::vector<PlanValue> values;  // those of the program first, in its order
  size_t program_values = 0;
  std::vector<PlanStep> steps;
  std::vector<Slot> inputs, outputs;
  std::vector<FlatProgram::Mutation> mutations;
  size_t arena_bytes = 0;  // scratch included
  size_t scratch_offset = 0;
};

Result<Plan> make_plan(FlatProgram program, const PlanOptions& options = {});

// Gives every temporary that owns memory its offset; returns the size of the arena. Alignment 64.
size_t plan_memory(std::vector<PlanValue>& values);

}  // namespace sixfold
