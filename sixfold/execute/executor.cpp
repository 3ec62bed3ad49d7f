#include "sixfold/execute/executor.h"

#include <chrono>
#include <cstring>

namespace sixfold {

Result<std::unique_ptr<Executor>> Executor::create(Plan plan, cpu::Pool& pool, Allocator& allocator) {
  std::unique_ptr<Executor> out(new Executor(std::move(plan), pool));
  SF_ASSIGN(out->arena_, OwnedBlock::take(allocator, out->plan_.arena_bytes, "the arena"));
  SF_TRY(out->bind(allocator));
  out->reset_state();
  return out;
}

Status Executor::bind(Allocator& allocator) {
  const auto& values = plan_.values;
  addresses_.assign(values.size(), nullptr);
  states_.resize(values.size());
  for (Slot s = 0; s < values.size(); ++s) {
    const PlanValue& v = values[s];
    if (v.buffer != s) continue;
    if (v.kind == ProgramValue::constant) {
      addresses_[s] = const_cast<std::byte*>(v.data.data);
    } else if (v.kind == ProgramValue::state) {
      SF_ASSIGN(states_[s], OwnedBlock::take(allocator, v.desc.size_bytes(), "a state"));
      addresses_[s] = states_[s].data();
    } else if (v.kind == ProgramValue::temporary) {
      addresses_[s] = arena_.data() + v.offset;
    }
  }
  for (const auto& m : plan_.mutations) {
    const PlanValue& next = values[values[m.next].buffer];
    staged_.emplace_back();
    if (next.kind != ProgramValue::state) continue;
    SF_ASSIGN(staged_.back(), OwnedBlock::take(allocator, next.desc.size_bytes(), "a copy of a state"));
  }
  // A kernel that says so gets null for an output that nobody reads.
  std::vector<bool> read(values.size(), false);
  for (const PlanStep& step : plan_.steps)
    for (const Slot s : step.inputs)
      if (s != kNoSlot) read[values[s].buffer] = true;
  for (const Slot s : plan_.outputs) read[values[s].buffer] = true;
  for (const auto& m : plan_.mutations) read[values[m.next].buffer] = true;

  std::vector<size_t> input_of(values.size(), SIZE_MAX);
  for (size_t i = 0; i < plan_.inputs.size(); ++i) input_of[plan_.inputs[i]] = i;
  for (size_t i = 0; i < plan_.steps.size(); ++i) {
    const PlanStep& step = plan_.steps[i];
    std::vector<const void*> in;
    for (size_t k = 0; k < step.inputs.size(); ++k) {
      const Slot s = step.inputs[k];
      if (s != kNoSlot && input_of[values[s].buffer] != SIZE_MAX)
        input_bindings_.push_back({i, k, input_of[values[s].buffer]});
      in.push_back(s == kNoSlot ? nullptr : address(s));
    }
    std::vector<void*> out;
    for (const Slot s : step.outputs) {
      const bool skip = step.kernel->optional_outputs() && !read[values[s].buffer];
      out.push_back(skip ? nullptr : address(s));
    }
    step_inputs_.push_back(std::move(in));
    step_outputs_.push_back(std::move(out));
  }
  times_.assign(plan_.steps.size(), 0);
  return {};
}

void Executor::reset_state() {
  for (Slot s = 0; s < states_.size(); ++s)
    if (states_[s])
      std::memcpy(states_[s].data(), plan_.values[s].data.data, plan_.values[s].desc.size_bytes());
}

Status Executor::show(size_t step) {
  const std::vector<Slot>& slots = plan_.steps[step].outputs;
  for (size_t k = 0; k < slots.size(); ++k)
    if (slots[k] < plan_.program_values && step_outputs_[step][k])
      SF_TRY(hook_(slots[k], plan_.values[slots[k]].desc, step_outputs_[step][k]));
  return {};
}

Status Executor::run(std::span<const void* const> inputs) {
  if (inputs.size() != plan_.inputs.size())
    return invalid_argument("the model has ", plan_.inputs.size(), " tensor inputs, ", inputs.size(),
                            " were given");
  for (size_t i = 0; i < inputs.size(); ++i) addresses_[plan_.inputs[i]] = const_cast<void*>(inputs[i]);
  for (const Binding& b : input_bindings_) step_inputs_[b.step][b.operand] = inputs[b.input];
  std::byte* scratch = arena_.data() + plan_.scratch_offset;
  for (size_t i = 0; i < plan_.steps.size(); ++i) {
    const auto begin =
        profiling_ ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point{};
    if (Status s = plan_.steps[i].kernel->run({step_inputs_[i], step_outputs_[i], scratch, pool_}); !s.ok())
        [[unlikely]]
      return s.take_error().during(cat("running ", plan_.steps[i].name));
    if (profiling_) times_[i] = (std::chrono::steady_clock::now() - begin) / std::chrono::nanoseconds(1);
    if (hook_) SF_TRY(show(i));
  }
  for (size_t i = 0; i < plan_.mutations.size(); ++i)
    if (staged_[i]) {
      const Slot next = plan_.mutations[i].next;
      std::memcpy(staged_[i].data(), address(next), plan_.values[next].desc.size_bytes());
    }
  for (size_t i = 0; i < plan_.mutations.size(); ++i) {
    const auto& m = plan_.mutations[i];
    if (plan_.values[m.state].kind != ProgramValue::state) continue;
    const void* from = staged_[i] ? staged_[i].data() : address(m.next);
    std::memcpy(address(m.state), from, plan_.values[m.state].desc.size_bytes());
  }
  return {};
}

}  // namespace sixfold
