// f32 convolution by oneDNN: making and running it (blocked.h).
#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>

#include "sixfold/cpu/scale_rows.h"
#include "sixfold/ops/conv/blocked.h"

namespace sixfold::cpu {
namespace blocked {

KernelResult BlockedConv::make(const ConvCall& call) {
  auto kernel = std::make_unique<BlockedConv>();
  kernel->call_ = call;
  kernel->packed_weights_ = call.weights != nullptr;
  ConvShape& s = kernel->shape_ = call.shape;
  if (s.is_pointwise()) {  // all points are alike: one axis of rows
    s.in = s.out = {s.batch * s.in_points()};
    s.batch = 1;
    s.kernel = s.stride = s.dilation = {1};
    s.padding = s.padding_end = {0};
  }
  kernel->split_ = choose_split(s);

  if (call.row_major_in) {
    kernel->src_offset_ =
        kernel->reserve(static_cast<size_t>(s.batch * s.in_points() * s.in_channels) * sizeof(float));
  }
  if (call.row_major_out) {
    kernel->dst_offset_ =
        kernel->reserve(static_cast<size_t>(s.batch * s.out_points() * s.out_channels) * sizeof(float));
  }
  if (call.row_major_residual && call.norm) {
    kernel->residual_offset_ =
        kernel->reserve(static_cast<size_t>(s.batch * s.out_points() * s.out_channels) * sizeof(float));
  }
  SF_TRY(kernel->add_tasks());
  // oneDNN chooses the layout of weights by the size of a block, and blocks of unequal size may need a copy
  // of the weights each: rather fewer blocks.
  Split& split = kernel->split_;
  while (split.rows > 1 && kernel->packed_.size() > static_cast<size_t>(split.channels * split.slices)) {
    split.rows /= 2;
    SF_TRY(kernel->add_tasks());
  }
  kernel->add_lanes();
  SF_TRY(call.weights ? kernel->pack_weights() : kernel->prepare_packing());
  return std::unique_ptr<Kernel>(std::move(kernel));
}

void BlockedConv::run_part(const Part& part, const Task& task, Lane& lane, const Operands& o,
                           float* result) const {
  const Packed& packed = packed_[part.packed];
  const float* from = o.src + task.src;
  if (split_.slices > 1) {
    auto* slice = reinterpret_cast<float*>(o.scratch + lane.slice_offset);
    const int64_t wide = shape_.in_channels, narrow = slice_channels();
    for (int64_t p = 0; p < task.points_in; ++p)
      std::memcpy(slice + p * narrow, from + p * wide + packed.first_in,
                  static_cast<size_t>(narrow) * sizeof(float));
    from = slice;
  }
  Handles& h = lane.handles[part.variant];
  h.src.set(from);
  h.dst.set(result);
  h.weights.set(o.weights + packed.offset);
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
  variants_[part.variant].primitive.execute({args, count});
}

void BlockedConv::run_task(const Task& task, Lane& lane, const Operands& o) const {
  const int64_t channels = task.channels, row = shape_.out_channels;
  const bool tiled = split_.channels > 1;
  float* out = o.dst + task.dst;
  float* result = tiled ? reinterpret_cast<float*>(o.scratch + lane.tile_offset) : out;
  if (o.residual && !call_.norm) {  // oneDNN adds to what is there
    const float* from = o.residual + task.dst;
    if (!tiled && from != result)
      std::memcpy(result, from, static_cast<size_t>(task.points * channels) * sizeof(float));
    if (tiled) {
      for (int64_t p = 0; p < task.points; ++p)
        std::memcpy(result + p * channels, from + p * row, static_cast<size_t>(channels) * sizeof(float));
    }
  }
  for (const Part& part : task.parts) run_part(part, task, lane, o, result);
  if (call_.norm) {
    for (int64_t p = 0; p < task.points; ++p)
      scale_row_f32(result + p * channels, o.scale + task.first_channel, o.shift + task.first_channel,
                    o.residual ? o.residual + task.dst + p * row : nullptr, static_cast<size_t>(channels));
  }
  // Not a post-op of oneDNN: its relu and clip turn a NaN into a number.
  call_.activation(result, result, static_cast<size_t>(task.points * channels));
  if (tiled) {
    for (int64_t p = 0; p < task.points; ++p)
      std::memcpy(out + p * row, result + p * channels, static_cast<size_t>(channels) * sizeof(float));
  }
}

Status BlockedConv::run(const Buffers& b) {
  const ConvShape& s = call_.shape;
  Operands o{b.input<float>(0),
             call_.weights ? packed_memory_.data() : b.scratch,
             call_.bias ? b.input<float>(2) : nullptr,
             call_.norm ? b.input<float>(4) : nullptr,
             call_.norm ? b.input<float>(5) : nullptr,
             call_.residual ? b.input<float>(3) : nullptr,
             b.output<float>(),
             b.scratch};
  b.pool.for_each(packing_.size(), [&](size_t i) {
    Packing& to = packing_[i];
    to.from.set(source(packed_[i], b.input<float>(1)));
    to.to.set(b.scratch + packed_[i].offset);
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, to.from.get()}, {DNNL_ARG_TO, to.to.get()}};
    to.reorder.execute(args);
  });
  if (call_.row_major_in) {
    auto* copy = reinterpret_cast<float*>(b.scratch + src_offset_);
    to_channels_last(b.pool, o.src, copy, s.batch, s.in_channels, s.in_points());
    o.src = copy;
  }
  if (call_.row_major_out) o.dst = reinterpret_cast<float*>(b.scratch + dst_offset_);
  if (o.residual && call_.row_major_residual) {
    // Summed into dst by oneDNN, or read beside it after the norm.
    float* copy = call_.norm ? reinterpret_cast<float*>(b.scratch + residual_offset_) : o.dst;
    to_channels_last(b.pool, o.residual, copy, s.batch, s.out_channels, s.out_points());
    o.residual = copy;
  }
  std::atomic<size_t> next{0};
  b.pool.for_each(lanes_.size(), [&](size_t lane) {
    for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < tasks_.size();)
      run_task(tasks_[i], lanes_[lane], o);
  });
  if (call_.row_major_out)
    to_row_major(b.pool, o.dst, b.output<float>(), s.batch, s.out_channels, s.out_points());
  return ok_status();
}

}  // namespace blocked

KernelResult make_blocked_conv(const ConvCall& call) { return blocked::BlockedConv::make(call); }

}  // namespace sixfold::cpu
