#include "sixfold/plan/plan.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace sixfold {
namespace {

using cpu::TensorDesc;

enum class Order : uint8_t { row_major, channels_last };

// The axis order that brings channels-last memory, read as row-major, to [N, C, ...]; and back.
Shape to_channels_last_dims(size_t rank) {
  Shape dims{0};
  for (size_t i = 2; i < rank; ++i) dims.push_back(static_cast<int64_t>(i));
  dims.push_back(1);
  return dims;
}
Shape from_channels_last_dims(size_t rank) {
  Shape dims{0, static_cast<int64_t>(rank) - 1};
  for (size_t i = 1; i + 1 < rank; ++i) dims.push_back(static_cast<int64_t>(i));
  return dims;
}
Shape permuted(const Shape& x, const Shape& dims) {
  Shape out;
  for (const int64_t d : dims) out.push_back(x[static_cast<size_t>(d)]);
  return out;
}

class Planner {
 public:
  Planner(FlatProgram program, const PlanOptions& options) : program_(std::move(program)), options_(options) {
    if (!options_.shared) options_.shared = &shared_;
  }

  Result<Plan> plan() {
    if (options_.release_packed) count_readers();
    for (ProgramValue& v : program_.values) {
      PlanValue out;
      out.kind = v.kind;
      out.desc = {v.dtype, v.shape, contiguous_strides(v.shape), nullptr};
      if (v.kind == ProgramValue::constant || v.kind == ProgramValue::state) {
        SF_ASSIGN(out.data, to_contiguous(*options_.allocator, v.data));
      }
      if (v.kind == ProgramValue::constant) out.desc.constant = out.data.data;
      v.data = {};
      add_value(std::move(out));
    }
    plan_.program_values = plan_.values.size();
    for (const ProgramStep& step : program_.steps) {
      if (Status s = add(step); !s.ok()) return s.take_error().during(cat("planning ", step.name));
    }
    SF_TRY(make_kernels());
    plan_.inputs = program_.inputs;
    for (const Slot out : program_.outputs) plan_.outputs.push_back(in_order(out, Order::row_major));
    for (const auto& m : program_.mutations)
      plan_.mutations.push_back({m.state, in_order(m.next, Order::row_major)});
    if (!error_.ok()) return error_.take_error();
    assign_memory();
    return std::move(plan_);
  }

 private:
  Slot add_value(PlanValue v) {
    const auto slot = static_cast<Slot>(plan_.values.size());
    v.buffer = slot;
    plan_.values.push_back(std::move(v));
    return slot;
  }
  const TensorDesc& desc(Slot s) const { return plan_.values[s].desc; }
  bool is_last(Slot s) const { return cpu::is_channels_last(desc(s)) && !cpu::is_row_major(desc(s)); }

  // The value itself, or a reordered copy of it; constants are reordered now, others by a permute step.
  Slot in_order(Slot s, Order order) {
    const bool fits = order == Order::row_major ? cpu::is_row_major(desc(s)) : cpu::is_channels_last(desc(s));
    if (fits) return s;
    const auto key = std::make_pair(s, order);
    if (const auto it = reordered_.find(key); it != reordered_.end()) return it->second;
    const size_t rank = desc(s).rank();
    // Both sides as row-major tensors: a permute moves between them.
    TensorDesc from = desc(s), to = desc(s);
    Shape dims;
    if (order == Order::row_major) {
      from.shape = permuted(from.shape, to_channels_last_dims(rank));
      dims = from_channels_last_dims(rank);
      to.strides = contiguous_strides(to.shape);
    } else {
      dims = to_channels_last_dims(rank);
      to.strides = cpu::channels_last_strides(to.shape);
    }
    from.strides = contiguous_strides(from.shape);
    to.constant = nullptr;
    TensorDesc kernel_out = to;
    kernel_out.shape = permuted(from.shape, dims);
    kernel_out.strides = contiguous_strides(kernel_out.shape);

    PlanValue out;
    out.desc = to;
    const Attrs attrs{{"dims", to_dims(dims)}};
    auto kernel =
        cpu::make({Op::permute, std::span(&from, 1), std::span(&kernel_out, 1), attrs, *options_.allocator});
    if (!kernel.ok()) {
      if (error_.ok()) error_ = kernel.take_error();
      return s;
    }
    if (desc(s).constant) {
      out.kind = ProgramValue::constant;
      if (Status st = reorder_constant(**kernel, s, out); !st.ok()) {
        if (error_.ok()) error_ = std::move(st);
        return s;
      }
      return reordered_[key] = add_value(std::move(out));
    }
    const Slot slot = add_value(std::move(out));
    plan_.steps.push_back({Op::permute, {s}, {slot}, std::move(kernel).value(), "reorder"});
    return reordered_[key] = slot;
  }

  Status reorder_constant(cpu::Kernel& kernel, Slot s, PlanValue& out) {
    std::byte* bytes = nullptr;
    SF_ASSIGN(out.data, Tensor::allocate(*options_.allocator, out.desc.dtype, out.desc.shape, &bytes));
    out.desc.constant = bytes;
    SF_ASSIGN(const OwnedBlock scratch,
              OwnedBlock::take(*options_.allocator, kernel.scratch_bytes(), "reordering a constant"));
    cpu::Pool pool(1);
    const void* in = desc(s).constant;
    void* result = bytes;
    return kernel.run({std::span(&in, 1), std::span(&result, 1), scratch.data(), pool});
  }

  // Which order a step's operand 0 and outputs take.
  Order order_for(const ProgramStep& step) {
    if (!options_.channels_last || step.outputs.empty()) return Order::row_major;
    switch (layout_of(step.op)) {
      case Layout::plain:
        return Order::row_major;
      case Layout::image: {
        const Slot x = step.inputs[0];
        const size_t rank = desc(x).rank();
        if (rank < 3 || rank > 5) return Order::row_major;
        if (step.op == Op::convolution)
          return desc(x).dtype == DType::f32 ? Order::channels_last : Order::row_major;
        if (step.op == Op::mean && !step.attrs.flag("keepdim")) {
          // Reduced without keepdim to a lower rank: row-major out of a channels-last operand works when it
          // is [N, C].
          const TensorDesc& out = desc(step.outputs[0]);
          return is_last(x) && out.rank() <= 2 ? Order::channels_last : Order::row_major;
        }
        const size_t operands = step.op == Op::concat ? step.inputs.size() : 1;
        for (size_t i = 0; i < operands; ++i)
          if (is_last(step.inputs[i])) return Order::channels_last;
        return Order::row_major;
      }
      case Layout::follow: {
        const Shape& full = desc(step.outputs[0]).shape;
        for (const Slot in : step.inputs)
          if (in != kNoSlot && desc(in).shape == full && !desc(in).constant && is_last(in))
            return Order::channels_last;
        return Order::row_major;
      }
    }
    return Order::row_major;
  }

  Status add(const ProgramStep& step) {
    if (alias(step)) return {};
    const Order order = order_for(step);
    const Layout layout = layout_of(step.op);
    std::vector<Slot> inputs;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const Slot in = step.inputs[i];
      if (in == kNoSlot) {
        inputs.push_back(in);
        continue;
      }
      bool takes_order = false;
      if (layout == Layout::image)
        takes_order = i == 0 || step.op == Op::concat || (step.op == Op::convolution && i == 3);
      if (layout == Layout::follow) takes_order = desc(in).shape == desc(step.outputs[0]).shape;
      // A convolution brings the few channels of an image next to each other faster than a general permute
      // does.
      const bool as_it_is =
          step.op == Op::convolution && i == 0 && desc(in).shape[1] <= 4 && cpu::is_row_major(desc(in));
      inputs.push_back(as_it_is ? in : in_order(in, takes_order ? order : Order::row_major));
    }
    if (!error_.ok()) return std::move(error_);
    for (const Slot out : step.outputs) {
      TensorDesc& d = plan_.values[out].desc;
      if (order == Order::channels_last && d.rank() >= 3 && d.rank() <= 5 &&
          d.rank() == desc(inputs[0]).rank())
        d.strides = cpu::channels_last_strides(d.shape);
      else if (order == Order::channels_last && layout == Layout::follow)
        d.strides = cpu::channels_last_strides(d.shape);
    }
    return add_kernel(step, std::move(inputs));
  }

  void count_readers() {
    readers_.assign(program_.values.size(), 0);
    for (const ProgramStep& step : program_.steps)
      for (const Slot s : step.inputs)
        if (s != kNoSlot) ++readers_[s];
    for (const Slot s : program_.outputs) ++readers_[s];
    for (const auto& m : program_.mutations) ++readers_[m.state], ++readers_[m.next];
  }

  // A constant of the program that was packed, and what was packed of it: perhaps a reordered copy. A kernel
  // is given null for it.
  void release(Slot weights, Slot packed) {
    if (readers_[weights] != 1) return;
    for (const Slot s : {weights, packed}) {
      PlanValue& v = plan_.values[s];
      if (v.kind != ProgramValue::constant) continue;
      v.data = {};
      v.desc.constant = nullptr;
    }
  }

  std::vector<TensorDesc> descs(const std::vector<Slot>& slots) const {
    std::vector<TensorDesc> out;
    for (const Slot s : slots) out.push_back(s == kNoSlot ? TensorDesc{} : desc(s));
    return out;
  }

  // A kernel that is made once all are known, by whichever thread.
  struct Planned {
    const ProgramStep* step;
    size_t at;  // in the plan
    std::vector<TensorDesc> in, out;
    Status status;
  };

  Status make_kernel(const ProgramStep& step, std::span<const TensorDesc> in, std::span<const TensorDesc> out,
                     PlanStep& to) {
    SF_ASSIGN(to.kernel, cpu::make({step.op, in, out, step.attrs, *options_.allocator, options_.shared}));
    if (options_.release_packed && to.kernel->packed_weights()) release(step.inputs[1], to.inputs[1]);
    return {};
  }

  Status make_kernels() {
    if (planned_.empty()) return {};
    options_.pool->for_each(planned_.size(), [&](size_t i) {
      Planned& p = planned_[i];
      p.status = make_kernel(*p.step, p.in, p.out, plan_.steps[p.at]);
    });
    for (Planned& p : planned_)
      if (!p.status.ok()) return p.status.take_error().during(cat("planning ", p.step->name));
    return {};
  }

  Status add_kernel(const ProgramStep& step, std::vector<Slot> inputs) {
    std::vector<TensorDesc> in = descs(inputs), out = descs(step.outputs);
    PlanStep to{step.op, std::move(inputs), step.outputs, nullptr, step.name};
    const auto half = [](const TensorDesc& d) { return is_half(d.dtype); };
    if (options_.pool && std::none_of(in.begin(), in.end(), half) &&
        std::none_of(out.begin(), out.end(), half)) {
      planned_.push_back({&step, plan_.steps.size(), std::move(in), std::move(out), {}});
      plan_.steps.push_back(std::move(to));
      return {};
    }
    Status made = make_kernel(step, in, out, to);
    if (made.ok()) {
      plan_.steps.push_back(std::move(to));
      return {};
    }
    if constexpr (keeps(DType::f16) || keeps(DType::bf16))
      return add_wide_kernel(step, to.inputs, made.take_error());
    else
      return made;
  }

  // A kernel that halves have not, computed in f32 and rounded once at the end: what torch's own CPU kernels
  // do with them.
  Status add_wide_kernel(const ProgramStep& step, const std::vector<Slot>& inputs, Error none) {
    const auto half = [&](Slot s) { return s != kNoSlot && is_half(desc(s).dtype); };
    if (none.code() != Code::Unsupported || step.op == Op::to ||
        (std::none_of(inputs.begin(), inputs.end(), half) &&
         std::none_of(step.outputs.begin(), step.outputs.end(), half)))
      return none;
    std::vector<Slot> wide_in, wide_out;
    for (const Slot s : inputs) {
      if (!half(s)) {
        wide_in.push_back(s);
        continue;
      }
      SF_ASSIGN(const Slot wide, convert(s, DType::f32));
      wide_in.push_back(wide);
    }
    for (const Slot s : step.outputs) {
      if (!half(s)) {
        wide_out.push_back(s);
        continue;
      }
      PlanValue v;
      v.desc = desc(s);
      v.desc.dtype = DType::f32;
      wide_out.push_back(add_value(std::move(v)));
    }
    const std::vector<TensorDesc> win = descs(wide_in), wout = descs(wide_out);
    auto wide_kernel = cpu::make({step.op, win, wout, step.attrs, *options_.allocator, options_.shared});
    if (!wide_kernel.ok()) return wide_kernel.take_error();
    plan_.steps.push_back({step.op, std::move(wide_in), wide_out, std::move(wide_kernel).value(), step.name});
    for (size_t i = 0; i < step.outputs.size(); ++i)
      if (wide_out[i] != step.outputs[i]) SF_TRY(convert_into(wide_out[i], step.outputs[i]));
    return {};
  }

  Result<Slot> convert(Slot s, DType dtype) {
    const auto key = std::make_pair(s, dtype);
    if (const auto it = converted_.find(key); it != converted_.end()) return it->second;
    PlanValue v;
    v.desc = desc(s);
    v.desc.dtype = dtype;
    v.desc.constant = nullptr;
    const Slot out = add_value(std::move(v));
    SF_TRY(convert_into(s, out));
    converted_[key] = out;
    return out;
  }

  Status convert_into(Slot from, Slot to) {
    const TensorDesc in = desc(from), out = desc(to);
    const Attrs attrs{{"dtype", out.dtype}};
    SF_ASSIGN(auto kernel, cpu::make({Op::to, std::span(&in, 1), std::span(&out, 1), attrs}));
    plan_.steps.push_back({Op::to, {from}, {to}, std::move(kernel), "convert"});
    return {};
  }

  // Steps that only rename: reshape of row-major memory, and a permute whose result is laid out as something
  // dense.
  bool alias(const ProgramStep& step) {
    if (step.op != Op::reshape && step.op != Op::permute) return false;
    const Slot in = step.inputs[0], out = step.outputs[0];
    const bool is_output =
        std::find(program_.outputs.begin(), program_.outputs.end(), out) != program_.outputs.end();
    PlanValue& to = plan_.values[out];
    const PlanValue& from = plan_.values[in];
    Shape strides;
    if (step.op == Op::reshape) {
      if (!cpu::is_row_major(from.desc)) return false;
      strides = contiguous_strides(to.desc.shape);
    } else {
      strides = permuted(from.desc.strides, step.attrs.ints("dims"));
      TensorDesc result = to.desc;
      result.strides = strides;
      if (cpu::is_row_major(result)) {
        strides = contiguous_strides(result.shape);
      } else if (!options_.channels_last || is_output || result.rank() != 4 ||
                 !cpu::is_channels_last(result)) {
        return false;
      }
    }
    to.desc.strides = std::move(strides);
    to.buffer = from.buffer;
    to.desc.constant = from.desc.constant;
    if (from.kind == ProgramValue::constant) {
      to.kind = ProgramValue::constant;
      to.data = from.data;
      to.buffer = out;
    }
    return true;
  }

  Slot root(Slot s) const {
    while (plan_.values[s].buffer != s) s = plan_.values[s].buffer;
    return s;
  }

  void assign_memory() {
    auto& values = plan_.values;
    for (Slot s = 0; s < values.size(); ++s) values[s].buffer = root(s);
    const int end = static_cast<int>(plan_.steps.size());
    const auto touch = [&](Slot s, int at) {
      if (s == kNoSlot) return;
      PlanValue& v = values[values[s].buffer];
      if (v.first < 0) v.first = at;
      v.last = std::max(v.last, at);
    };
    for (int i = 0; i < end; ++i) {
      for (const Slot s : plan_.steps[static_cast<size_t>(i)].inputs) touch(s, i);
      for (const Slot s : plan_.steps[static_cast<size_t>(i)].outputs) touch(s, i);
    }
    for (const Slot s : plan_.outputs) touch(s, end);
    for (const auto& m : plan_.mutations) touch(m.next, end);

    if (options_.in_place) share_in_place();
    if (options_.external_outputs)
      for (const Slot s : plan_.outputs)
        if (PlanValue& v = values[values[s].buffer]; v.kind == ProgramValue::temporary)
          v.kind = ProgramValue::output;
    size_t scratch = 0;
    for (const PlanStep& s : plan_.steps) scratch = std::max(scratch, s.kernel->scratch_bytes());
    plan_.scratch_offset = (plan_memory(values) + 63) / 64 * 64;
    plan_.arena_bytes = plan_.scratch_offset + scratch;
  }

  // out takes over the memory of input 0 when that dies in the step and the kernel can work in place.
  void share_in_place() {
    auto& values = plan_.values;
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      PlanStep& step = plan_.steps[i];
      if (!step.kernel->in_place() || step.inputs.empty() || step.inputs[0] == kNoSlot) continue;
      const Slot in = values[step.inputs[0]].buffer, out = values[step.outputs[0]].buffer;
      PlanValue& from = values[in];
      PlanValue& to = values[out];
      const auto at = static_cast<int>(i);
      if (from.kind != ProgramValue::temporary || to.kind != ProgramValue::temporary || in == out) continue;
      if (from.last != at || to.first != at || from.desc.size_bytes() != to.desc.size_bytes()) continue;
      if (cpu::is_row_major(desc(step.inputs[0])) != cpu::is_row_major(desc(step.outputs[0]))) continue;
      if (std::count(step.inputs.begin(), step.inputs.end(), step.inputs[0]) > 1) continue;
      bool shared = false;  // another operand in the same buffer
      for (size_t k = 1; k < step.inputs.size(); ++k)
        shared = shared || (step.inputs[k] != kNoSlot && values[step.inputs[k]].buffer == in);
      if (shared) continue;
      from.last = std::max(from.last, to.last);
      for (PlanValue& v : values)
        if (v.buffer == out) v.buffer = in;
      to.first = to.last = -1;
    }
  }

  FlatProgram program_;
  PlanOptions options_;
  cpu::SharedParts shared_;
  std::vector<size_t> readers_;  // by value of the program
  std::vector<Planned> planned_;
  Plan plan_;
  Status error_;
  std::map<std::pair<Slot, Order>, Slot> reordered_;
  std::map<std::pair<Slot, DType>, Slot> converted_;
};

}  // namespace

Result<Plan> make_plan(FlatProgram program, const PlanOptions& options) {
  return Planner(std::move(program), options).plan();
}

}  // namespace sixfold
