// Runs a plan. One run at a time per executor; inputs are read in place, outputs stay valid until the next
// run.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "sixfold/plan/plan.h"

namespace sixfold {

class Executor {
 public:
  // All memory is taken here. Pool and allocator must outlive the executor.
  static Result<std::unique_ptr<Executor>> create(Plan plan, cpu::Pool& pool,
                                                  Allocator& allocator = system_allocator());

  size_t input_count() const { return plan_.inputs.size(); }
  size_t output_count() const { return plan_.outputs.size(); }
  const cpu::TensorDesc& input_desc(size_t i) const { return plan_.values[plan_.inputs[i]].desc; }
  const cpu::TensorDesc& output_desc(size_t i) const { return plan_.values[plan_.outputs[i]].desc; }

  // inputs[i]: row-major data of input i, of its dtype and shape.
  Status run(std::span<const void* const> inputs);
  const void* output(size_t i) const { return address(plan_.outputs[i]); }

  // Mutated buffers back to their initial values.
  void reset_state();

  const Plan& plan() const { return plan_; }
  // Called after each step with every result that is a value of the program (Plan::values begins with those)
  // and that was computed: before anybody reads it, so what the hook writes into it is what the rest of the
  // run sees. An error ends the run.
  using Hook = std::function<Status(Slot slot, const cpu::TensorDesc& desc, void* data)>;
  void set_hook(Hook hook) { hook_ = std::move(hook); }
  // With profiling on, nanoseconds of each step of the last run.
  void set_profiling(bool on) { profiling_ = on; }
  const std::vector<int64_t>& step_times_ns() const { return times_; }

 private:
  Executor(Plan plan, cpu::Pool& pool) : plan_(std::move(plan)), pool_(pool) {}
  void* address(Slot slot) const { return addresses_[plan_.values[slot].buffer]; }
  Status bind(Allocator& allocator);
  Status show(size_t step);

  Plan plan_;
  cpu::Pool& pool_;
  OwnedBlock arena_;
  std::vector<OwnedBlock> states_;  // by slot of the buffer; empty for other values
  std::vector<OwnedBlock> staged_;  // by mutation: copies of states that go into other states
  std::vector<void*> addresses_;    // by slot of the buffer
  std::vector<std::vector<const void*>> step_inputs_;
  std::vector<std::vector<void*>> step_outputs_;
  struct Binding {
    size_t step, operand, input;
  };
  std::vector<Binding> input_bindings_;
  std::vector<int64_t> times_;
  bool profiling_ = false;
  Hook hook_;
};

}  // namespace sixfold
