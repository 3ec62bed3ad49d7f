#include "sixfold/execute/prepared_call.h"

#include <algorithm>
#include <cstring>

namespace sixfold {

Result<std::unique_ptr<PreparedCall>> PreparedCall::create(const Request& request, bool* missed_data) {
  StepBuilder builder(request.results, request.seed, *request.allocator);
  std::vector<ValueId> inputs;
  for (const OperandDesc& operand : request.operands)
    inputs.push_back(operand.dtype == DType::none ? builder.skip_operand() : builder.operand(operand));
  Call call(builder, request.rule->target, inputs, *request.attrs);
  Status returned = request.rule->apply(call);
  auto results = call.take(std::move(returned));
  SF_TRY(builder.take_status());
  if (missed_data) *missed_data = builder.missed_data();
  if (!results.ok()) return results.take_error();

  auto out = std::make_unique<PreparedCall>();
  SF_ASSIGN(FlatProgram program, builder.finish(*results, &out->shapes_));
  PlanOptions options;
  options.external_outputs = request.direct;
  options.allocator = request.allocator;
  options.shared = request.shared;
  // A convolution of row-major tensors reorders what it is just working on, and no whole tensor.
  options.channels_last = std::any_of(request.operands.begin(), request.operands.end(),
                                      [](const OperandDesc& o) { return !is_plain_order(o.dim_order); });
  SF_ASSIGN(out->plan_, make_plan(std::move(program), options));
  out->used_data_ = builder.used_data();
  out->inputs_.assign(builder.inputs().begin(), builder.inputs().end());
  for (size_t i = 0; i < results->size(); ++i)
    if ((*results)[i].valid() && request.results[i].used) out->outputs_.push_back(static_cast<uint32_t>(i));

  const Plan& plan = out->plan_;
  if (plan.steps.empty()) {
    // The result is an operand, or a constant: copying memory onto itself is fine.
    if (plan.outputs.size() == 1 && !plan.inputs.empty() &&
        plan.values[plan.outputs[0]].buffer == plan.values[plan.inputs[0]].buffer)
      out->in_place_operand_ = static_cast<int>(out->inputs_[0]);
  } else if (plan.steps.size() == 1 && plan.outputs.size() == 1 && plan.steps[0].kernel->in_place()) {
    const PlanStep& step = plan.steps[0];
    for (size_t k = 0; k < plan.inputs.size(); ++k)
      if (!step.inputs.empty() && step.inputs[0] != kNoSlot &&
          plan.values[plan.inputs[k]].buffer == plan.values[step.inputs[0]].buffer &&
          plan.values[plan.inputs[k]].desc.size_bytes() == plan.values[plan.outputs[0]].desc.size_bytes())
        out->in_place_operand_ = static_cast<int>(out->inputs_[k]);
  }
  size_t in = 0, outs = 0;
  for (const PlanStep& step : plan.steps) {
    in += step.inputs.size();
    outs += step.outputs.size();
  }
  out->addresses_.resize(plan.values.size());
  out->step_inputs_.resize(in);
  out->step_outputs_.resize(outs);
  out->copies_.reserve(plan.outputs.size());
  return out;
}

bool PreparedCall::reads(std::span<const std::byte> constant) const {
  const auto inside = [&](Slot s) {
    if (s == kNoSlot) return false;
    const PlanValue& v = plan_.values[plan_.values[s].buffer];
    return v.kind == ProgramValue::constant && v.data.data >= constant.data() &&
           v.data.data < constant.data() + constant.size();
  };
  for (const PlanStep& step : plan_.steps)
    for (size_t i = 0; i < step.inputs.size(); ++i)
      if (!(i == 1 && step.kernel->packed_weights()) && inside(step.inputs[i])) return true;
  return std::any_of(plan_.outputs.begin(), plan_.outputs.end(), inside);
}

void PreparedCall::bind(std::span<const std::byte* const> operands, std::span<std::byte* const> results,
                        std::byte* scratch) {
  const auto& values = plan_.values;
  scratch_ = scratch + plan_.scratch_offset;
  for (Slot s = 0; s < values.size(); ++s) {
    if (values[s].buffer != s) continue;
    addresses_[s] = values[s].kind == ProgramValue::constant ? const_cast<std::byte*>(values[s].data.data)
                                                             : scratch + values[s].offset;
  }
  for (size_t k = 0; k < inputs_.size(); ++k)
    addresses_[plan_.inputs[k]] = const_cast<std::byte*>(operands[inputs_[k]]);
  copies_.clear();
  for (size_t k = 0; k < outputs_.size(); ++k) {
    const Slot root = values[plan_.outputs[k]].buffer;
    if (values[root].kind != ProgramValue::output) continue;
    addresses_[root] = results[outputs_[k]];  // of two results in one buffer, the other is a copy
  }
  for (size_t k = 0; k < outputs_.size(); ++k) {
    const Slot slot = plan_.outputs[k];
    if (address(slot) != results[outputs_[k]])
      copies_.push_back({address(slot), results[outputs_[k]], values[slot].desc.size_bytes()});
  }
  size_t in = 0, out = 0;
  for (size_t i = 0; i < plan_.steps.size(); ++i) {
    const PlanStep& step = plan_.steps[i];
    for (const Slot s : step.inputs) step_inputs_[in++] = s == kNoSlot ? nullptr : address(s);
    for (const Slot s : step.outputs) {
      const PlanValue& v = values[values[s].buffer];
      const bool unread = v.kind == ProgramValue::temporary && v.last <= static_cast<int>(i);
      step_outputs_[out++] = unread && step.kernel->optional_outputs() ? nullptr : address(s);
    }
  }
}

Status PreparedCall::run(cpu::Pool& pool) {
  size_t in = 0, out = 0;
  for (const PlanStep& step : plan_.steps) {
    SF_TRY(step.kernel->run({std::span(step_inputs_).subspan(in, step.inputs.size()),
                             std::span(step_outputs_).subspan(out, step.outputs.size()), scratch_, pool}));
    in += step.inputs.size();
    out += step.outputs.size();
  }
  for (const Copy& c : copies_) std::memmove(c.to, c.from, c.bytes);
  return {};
}

}  // namespace sixfold
