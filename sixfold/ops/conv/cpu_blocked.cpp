// f32 convolution by oneDNN: making and running it (blocked.h).
#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>

#include "sixfold/cpu/bf16_rows.h"
#include "sixfold/cpu/copy.h"
#include "sixfold/cpu/scale_rows.h"
#include "sixfold/cpu/share_packed.h"
#include "sixfold/ops/conv/blocked.h"

namespace sixfold::cpu {
namespace blocked {

KernelResult BlockedConv::make(const ConvCall& call) {
  auto kernel = std::make_unique<BlockedConv>();
  const auto make_plan = [&] { return BlockedPlan::make(call); };
  SF_ASSIGN(kernel->plan_,
            call.shared ? call.shared->get<BlockedPlan>(BlockedPlan::key(call), make_plan) : make_plan());
  kernel->activation_ = call.activation;
  kernel->packed_weights_ = call.weights != nullptr;
  kernel->scratch_bytes_ = kernel->plan_->scratch_bytes;
  if (call.weights) {
    SF_ASSIGN(kernel->packed_memory_,
              share_packed(
                  call.weights, [&] { return BlockedPlan::key(call); },
                  [&] { return kernel->pack_weights(call); }));
  }
  return std::unique_ptr<Kernel>(std::move(kernel));
}

// Constant weights, all in one piece of memory, a block of channels after the other.
Result<OwnedBlock> BlockedConv::pack_weights(const ConvCall& call) const {
  const BlockedPlan& plan = *plan_;
  SF_ASSIGN(OwnedBlock packed, OwnedBlock::take(*call.allocator, plan.packed_bytes, "packed weights"));
  OwnedBlock room;
  size_t room_bytes = 0;
  for (size_t i = 0; i < plan.packed.size(); ++i) {
    const Packed& p = plan.packed[i];
    SF_ASSIGN(Packing to, plan.packing(p));
    if (to.reorder.scratch_bytes() > room_bytes) {
      room_bytes = to.reorder.scratch_bytes();
      SF_ASSIGN(room, OwnedBlock::take(*call.allocator, room_bytes, "packing weights"));
    }
    to.from.set(plan.source(p, call.weights));
    to.to.set(packed.data() + p.offset);
    const Memory scratch(to.reorder.desc(dnnl_query_scratchpad_md), room.data());
    const dnnl_exec_arg_t args[] = {
        {DNNL_ARG_FROM, to.from.get()}, {DNNL_ARG_TO, to.to.get()}, {DNNL_ARG_SCRATCHPAD, scratch.get()}};
    to.reorder.execute(args);
    // A large layer is never resident twice as a whole.
    const bool last = i + 1 == plan.packed.size() || plan.packed[i + 1].first != p.first;
    if (last && plan.shape.groups == 1 && !plan.shape.transposed)
      call.allocator->forget(std::as_bytes(std::span(call.weights + p.first * plan.row_weights(),
                                                     static_cast<size_t>(p.channels * plan.row_weights()))));
  }
  return packed;
}

// What a slice reads, dense.
const void* BlockedConv::input(const Packed& weights, const Task& task, const Lane& lane,
                               const Operands& o) const {
  const BlockedPlan& plan = *plan_;
  const ConvShape& s = plan.shape;
  const int64_t wide = s.in_channels, narrow = plan.slice_channels(), channel = weights.first_in;
  if (plan.bf16) return o.src_bf16 + (task.image * s.in_points() + task.first_in) * wide;
  auto* slice = reinterpret_cast<float*>(o.scratch + lane.input_offset);
  if (plan.tiles_row_major_input()) {
    transpose(o.src + (task.image * wide + channel) * s.in_points() + task.first_in, s.in_points(), narrow,
              task.points_in, slice, narrow);
    return slice;
  }
  const float* from = o.src + (task.image * s.in_points() + task.first_in) * wide + channel;
  if (narrow == wide) return from;
  for (int64_t p = 0; p < task.points_in; ++p)
    std::memcpy(slice + p * narrow, from + p * wide, static_cast<size_t>(narrow) * sizeof(float));
  return slice;
}

void BlockedConv::run_slice(const Packed& weights, const Task& task, Lane& lane, const Operands& o,
                            float* result) const {
  Handles& h = lane.handles[task.variant];
  h.src.set(input(weights, task, lane, o));
  h.dst.set(result);
  h.weights.set(o.weights + weights.offset);
  h.scratch.set(o.scratch + lane.primitive_offset);
  dnnl_exec_arg_t args[5] = {{DNNL_ARG_SRC, h.src.get()},
                             {DNNL_ARG_DST, h.dst.get()},
                             {DNNL_ARG_WEIGHTS, h.weights.get()},
                             {DNNL_ARG_SCRATCHPAD, h.scratch.get()}};
  size_t count = 4;
  if (h.bias.get()) {
    h.bias.set(o.bias + task.first_channel);
    args[count++] = {DNNL_ARG_BIAS, h.bias.get()};
  }
  plan_->variants[task.variant].primitive.execute({args, count});
}

// A task's piece of the residual, dense.
void BlockedConv::copy_residual(const Task& task, const Operands& o, float* to) const {
  const ConvShape& s = plan_->shape;
  const int64_t channels = task.channels, row = s.out_channels, points = s.out_points();
  if (plan_->row_major_residual)
    return transpose(o.residual + (task.image * row + task.first_channel) * points + task.first, points,
                     channels, task.points, to, channels);
  const float* from = o.residual + (task.image * points + task.first) * row + task.first_channel;
  if (from == to) return;
  if (channels == row) {
    std::memcpy(to, from, static_cast<size_t>(task.points * channels) * sizeof(float));
    return;
  }
  for (int64_t p = 0; p < task.points; ++p)
    std::memcpy(to + p * channels, from + p * row, static_cast<size_t>(channels) * sizeof(float));
}

// What the primitives add to.
void BlockedConv::begin_result(const Task& task, const Operands& o, float* result) const {
  const BlockedPlan& plan = *plan_;
  const bool residual = o.residual && !plan.norm;
  if (residual) copy_residual(task, o, result);
  if (plan.primitives_add_bias() || (residual && !plan.bias)) return;
  const int64_t channels = task.channels;
  const float* bias = plan.bias ? o.bias + task.first_channel : nullptr;
  for (int64_t p = 0; p < task.points; ++p) {
    float* row = result + p * channels;
    if (!bias)
      std::memset(row, 0, static_cast<size_t>(channels) * sizeof(float));
    else if (!residual)
      std::memcpy(row, bias, static_cast<size_t>(channels) * sizeof(float));
    else
      for (int64_t c = 0; c < channels; ++c) row[c] += bias[c];
  }
}

void BlockedConv::run_task(const Task& task, Lane& lane, const Operands& o) const {
  const BlockedPlan& plan = *plan_;
  const int64_t channels = task.channels, row = plan.shape.out_channels, points = plan.shape.out_points();
  const bool tiled = plan.tiles_result();
  const int64_t at = (task.image * points + task.first) * row + task.first_channel;  // channels-last
  float* result = tiled ? reinterpret_cast<float*>(o.scratch + lane.tile_offset) : o.dst + at;
  if (plan.adds()) begin_result(task, o, result);
  for (const size_t slice : task.slices) run_slice(plan.packed[slice], task, lane, o, result);
  if (plan.norm) {
    const float* residual = o.residual ? o.residual + at : nullptr;
    int64_t step = row;
    if (o.residual && plan.row_major_residual) {
      auto* copy = reinterpret_cast<float*>(o.scratch + lane.residual_offset);
      copy_residual(task, o, copy);
      residual = copy;
      step = channels;
    }
    for (int64_t p = 0; p < task.points; ++p)
      scale_row_f32(result + p * channels, o.scale + task.first_channel, o.shift + task.first_channel,
                    residual ? residual + p * step : nullptr, static_cast<size_t>(channels));
  }
  // Not a post-op of oneDNN: its relu and clip turn a NaN into a number.
  activation_(result, result, static_cast<size_t>(task.points * channels));
  if (plan.row_major_out)
    return transpose(result, channels, task.points, channels,
                     o.dst + (task.image * row + task.first_channel) * points + task.first, points);
  for (int64_t p = 0; tiled && p < task.points; ++p)
    std::memcpy(o.dst + at + p * row, result + p * channels, static_cast<size_t>(channels) * sizeof(float));
}

Status BlockedConv::run(const Buffers& b) {
  BlockedPlan& plan = *plan_;
  Operands o{b.input<float>(0),
             nullptr,
             packed_weights_ ? packed_memory_->data() : b.scratch,
             plan.bias ? b.input<float>(2) : nullptr,
             plan.norm ? b.input<float>(4) : nullptr,
             plan.norm ? b.input<float>(5) : nullptr,
             plan.residual ? b.input<float>(3) : nullptr,
             b.output<float>(),
             b.scratch};
  b.pool.for_each(plan.packings.size(), [&](size_t i) {
    Packing& to = plan.packings[i];
    to.from.set(plan.source(plan.packed[i], b.input<float>(1)));
    to.to.set(b.scratch + plan.packed[i].offset);
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, to.from.get()}, {DNNL_ARG_TO, to.to.get()}};
    to.reorder.execute(args);
  });
  if (plan.src_offset != SIZE_MAX) {
    auto* copy = reinterpret_cast<float*>(b.scratch + plan.src_offset);
    if (plan.picking)
      plan.picking->run(b.pool, o.src, copy);
    else
      to_channels_last(b.pool, o.src, copy, plan.shape.batch, plan.shape.in_channels, plan.shape.in_points());
    o.src = copy;
  }
  if (plan.bf16) {
    auto* copy = reinterpret_cast<uint16_t*>(b.scratch + plan.bf16_offset);
    b.pool.for_ranges(plan.shape.batch * plan.shape.in_points() * plan.shape.in_channels, 1 << 16,
                      [&](int64_t begin, int64_t end) {
                        to_bf16(o.src + begin, copy + begin, static_cast<size_t>(end - begin));
                      });
    o.src_bf16 = copy;
  }
  std::atomic<size_t> next{0};
  b.pool.for_each(plan.lanes.size(), [&](size_t lane) {
    for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < plan.tasks.size();)
      run_task(plan.tasks[i], plan.lanes[lane], o);
  });
  return ok_status();
}

}  // namespace blocked

KernelResult make_blocked_conv(const ConvCall& call) { return blocked::BlockedConv::make(call); }

}  // namespace sixfold::cpu
