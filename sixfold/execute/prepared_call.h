// One kernel call ready to run: the rule of its ATen op applied to the shapes and numbers that it has now.
#pragma once

#include <memory>

#include "sixfold/execute/step_builder.h"
#include "sixfold/plan/plan.h"

namespace sixfold {

class PreparedCall {
 public:
  struct Request {
    const AtenRule* rule = nullptr;
    std::span<const OperandDesc> operands;  // inputs of the call, in the order that Attr Operands count them;
                                            // dtype none: an absent item of a list
    const Attrs* attrs = nullptr;
    std::span<const ResultDesc> results;
    int64_t seed = 0;
    // Results in the caller's memory at once. Otherwise they are computed in scratch and copied, which is
    // right also where that memory is an operand's.
    bool direct = true;
    Allocator* allocator = nullptr;  // of packed weights and computed constants; outlives the call
    cpu::SharedParts* shared = nullptr;
  };
  // missed_data: the op's result depends on data (OperandDesc::known) that the request did not have.
  static Result<std::unique_ptr<PreparedCall>> create(const Request& request, bool* missed_data);

  size_t scratch_bytes() const { return plan_.arena_bytes; }
  const std::vector<Shape>& shapes() const { return shapes_; }  // of all results
  bool used_data() const { return used_data_; }
  // Whether running reads any of these bytes, which are a constant operand's; not if all was packed or
  // folded.
  bool reads(std::span<const std::byte> constant) const;
  // With direct: result 0 may be the memory of this operand, if both begin at the same place; -1: of none.
  int in_place_operand() const { return in_place_operand_; }

  // Addresses of all operands and results (null: absent or unused), and 64-byte aligned scratch.
  void bind(std::span<const std::byte* const> operands, std::span<std::byte* const> results,
            std::byte* scratch);
  Status run(cpu::Pool& pool);

 private:
  std::byte* address(Slot slot) const { return addresses_[plan_.values[slot].buffer]; }

  Plan plan_;
  std::vector<Shape> shapes_;
  std::vector<uint32_t> inputs_;       // plan input -> operand
  std::vector<uint32_t> outputs_;      // plan output -> result
  std::vector<std::byte*> addresses_;  // by slot of the buffer
  std::vector<const void*> step_inputs_;
  std::vector<void*> step_outputs_;
  struct Copy {
    const std::byte* from;
    std::byte* to;
    size_t bytes;
  };
  std::vector<Copy> copies_;
  std::byte* scratch_ = nullptr;
  int in_place_operand_ = -1;
  bool used_data_ = false;
};

}  // namespace sixfold
