// The canonical steps of one kernel call on static shapes, as a flat program that plan/ binds to CPU kernels.
//
// Operands are the program's inputs (or constants, which kernels pack), results its outputs. Memory of
// another order than row-major enters and leaves through permutes, which the planner turns into layouts where
// kernels take them.
#pragma once

#include <deque>

#include "sixfold/ops/call.h"
#include "sixfold/plan/program.h"

namespace sixfold {

// A tensor of a loaded method as a kernel call sees it.
struct OperandDesc {
  DType dtype = DType::none;
  std::span<const int64_t> sizes;
  std::span<const uint8_t> dim_order;   // axes from outermost to innermost
  const std::byte* constant = nullptr;  // its data, when it never changes
  const std::byte* known = nullptr;     // its data now, for an op whose result's shape depends on it
};
struct ResultDesc {
  DType dtype = DType::none;
  std::span<const int64_t> sizes;  // now
  std::span<const uint8_t> dim_order;
  int64_t most = 0;  // elements that its memory holds
  bool resizable = false;
  bool used = true;
};

class StepBuilder final : public Builder {
 public:
  // The results live as long as the builder.
  StepBuilder(std::span<const ResultDesc> results, int64_t seed, Allocator& allocator);

  // An operand of the call; inputs() tells the operands that are not constant, in the program's order.
  ValueId operand(const OperandDesc& desc);
  ValueId skip_operand() {  // one that is absent
    ++operands_;
    return kNoValue;
  }
  std::span<const uint32_t> inputs() const { return inputs_; }

  // results: what the rule gave. The program computes each used one with the dtype and order of its
  // ResultDesc; shapes() has what it computes, kept by the caller: a resizable result takes that shape.
  Result<FlatProgram> finish(const std::vector<ValueId>& results, std::vector<Shape>* shapes);

  // Whether the rule asked for data that it could not have: with it, the same call may have an answer.
  bool missed_data() const { return missed_data_; }
  bool used_data() const { return used_data_; }

  Result<std::vector<ValueId>> add(Op op, std::vector<ValueId> inputs, Attrs attrs) override;
  ValueId constant(Tensor data) override;
  const Type& type(ValueId id) const override;
  const Tensor* constant_data(ValueId id) const override;
  std::optional<Tensor> known(ValueId id) const override;
  std::optional<Source> source(ValueId) const override { return std::nullopt; }
  size_t output_count() const override { return results_.size(); }
  const Type& output_type(size_t i) const override { return result_types_[i]; }
  bool is_used(size_t i) const override { return results_[i].used; }
  int64_t seed() const override { return seed_; }
  Allocator& allocator() const override { return allocator_; }

  // An error that a rule could not be told: no memory for data that it asked for.
  Status take_status() { return std::move(status_); }

 private:
  struct Value {
    Type type;
    Slot slot = kNoSlot;  // in program_; a constant gets one when a step uses it
    bool is_constant = false;
    Tensor data;   // constant
    Tensor known;  // dtype none: not known
  };
  ValueId new_value(Value value);
  Slot slot_of(ValueId id);
  Slot add_input(DType dtype, Shape shape, uint32_t operand);

  std::span<const ResultDesc> results_;
  std::vector<Type> result_types_;
  int64_t seed_;
  Allocator& allocator_;
  mutable Status status_;
  std::deque<Value> values_;  // references stay valid
  FlatProgram program_;
  std::vector<uint32_t> inputs_;
  uint32_t operands_ = 0;
  mutable bool missed_data_ = false, used_data_ = false;
};

// Strides in elements of memory in dim_order; an extent of 0 counts as 1.
Shape strides_of(std::span<const int64_t> sizes, std::span<const uint8_t> dim_order);
bool is_plain_order(std::span<const uint8_t> dim_order);

}  // namespace sixfold
