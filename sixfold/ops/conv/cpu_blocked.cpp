// f32 convolution by oneDNN, channels-last inside.
//
// The output is cut into images x blocks of rows x blocks of channels; each cut is one primitive call on one
// thread. A block of rows is a smaller convolution: it reads its rows and their halo, and only the first and
// last block see the padding, so that a handful of primitives serves all tasks. A block of channels writes to
// a dense tile, which is then copied into place: oneDNN's fast code takes no strided output.
//
// A long sum loses accuracy in one chain of f32 additions. It is computed in slices of input channels, each a
// primitive that adds its own short chain to the tile; the slice of the input is made dense first.
#include <algorithm>
#include <cstring>
#include <memory>

#include "sixfold/cpu/onednn.h"
#include "sixfold/cpu/scale_rows.h"
#include "sixfold/ops/conv/conv.h"

namespace sixfold::cpu {
namespace {

using onednn::Memory;
using onednn::PostOps;
using onednn::Primitive;

// One size of task.
struct Variant {
  int64_t rows_in, rows_out, before, after;  // rows and their padding
  int64_t channels;                          // of the output
  bool first;                                // of the slices: it brings the bias
  Primitive primitive;
};

// Weights of one block of channels in the layout that a primitive chose.
struct Packed {
  int64_t first, channels;
  int64_t first_in;  // of its slice
  dnnl_memory_desc_t desc;
  size_t size_bytes;
  Memory source, packed;  // as the model has them; as the primitive wants them
  Primitive reorder;
  size_t offset;  // in the memory of packed weights, which is scratch when they come with each run
};

// One slice of the input channels.
struct Part {
  size_t variant, packed;
  int64_t first_in;
  size_t scratch_offset;  // oneDNN's scratch
  Memory src, dst, bias, scratch;
  std::vector<dnnl_exec_arg_t> args;
};

struct Task {
  std::vector<Part> parts;
  int64_t src, dst;  // element offsets of the first point, channels-last
  int64_t first_channel, channels;
  int64_t points_in, points;
  size_t slice_offset;  // dense slice of the input, when there are several
  size_t tile_offset;   // dense result, when channels are split
};

struct Split {
  int64_t rows = 1, channels = 1;  // how many blocks
  int64_t slices = 1;              // of the input channels
};

constexpr int64_t kLeastPoints = 28;    // of a block of rows: fewer leave the matrix unit idle
constexpr int64_t kLeastChannels = 64;  // of a block of channels
constexpr int64_t kTaskWork = 1 << 20;  // multiplications worth a task, about 15 us
constexpr int64_t kMostTasks = 16;
constexpr int64_t kMostTerms = 512;   // of one chain of additions, where the channels can be cut
constexpr int64_t kSliceTerms = 128;  // of the chains that a longer one is cut into
constexpr int64_t kLeastSlice = 32;   // input channels

Split choose_split(const ConvShape& s) {
  const bool depthwise = s.groups > 1 && s.in_channels == s.groups;
  // A depthwise multiplication costs about four times one of a dense convolution: it is bound by memory.
  const int64_t work = s.multiplications() * (depthwise ? 4 : 1);
  const int64_t wanted =
      std::clamp<int64_t>(work / kTaskWork / std::max<int64_t>(s.batch, 1), 1,
                          std::max<int64_t>(kMostTasks / std::max<int64_t>(s.batch, 1), 1));
  const int64_t rows = s.transposed ? 1 : s.out[0],
                row_points = s.out_points() / std::max<int64_t>(s.out[0], 1);
  const int64_t padding = *std::max_element(s.padding.begin(), s.padding.end());
  Split split;
  const auto split_rows = [&] {
    while (split.rows * split.channels * 2 <= wanted &&
           rows / (split.rows * 2) * row_points >= kLeastPoints && rows / (split.rows * 2) > padding &&
           (rows / (split.rows * 2) >= 3 || rows % (split.rows * 2) == 0)) {
      split.rows *= 2;
    }
  };
  const auto split_channels = [&] {
    if (s.groups > 1) return;
    while (split.rows * split.channels * 2 <= wanted &&
           s.out_channels / (split.channels * 2) >= kLeastChannels) {
      split.channels *= 2;
    }
  };
  // Whichever operand is larger should be read by one task only.
  const int64_t weights = s.in_channels / s.groups * s.out_channels * numel(s.kernel);
  if (weights > s.in_channels * s.in_points() * 4) {
    split_channels();
    split_rows();
  } else {
    split_rows();
    split_channels();
  }
  if (s.groups == 1 && !s.transposed && s.in_channels * numel(s.kernel) > kMostTerms) {
    while (s.in_channels / split.slices * numel(s.kernel) > kSliceTerms &&
           s.in_channels % (split.slices * 2 * 16) == 0 && s.in_channels / (split.slices * 2) >= kLeastSlice)
      split.slices *= 2;
  }
  return split;
}

class BlockedConv final : public Kernel {
 public:
  static KernelResult make(const ConvCall& call);
  Status run(const Buffers& buffers) override;

 private:
  Status add_tasks();
  Result<size_t> variant(const Variant& wanted);
  Result<Primitive> create(const Variant& v);
  Result<size_t> packed(int64_t first, int64_t channels, int64_t first_in, const dnnl_memory_desc_t& desc);
  Result<Part> part(const Variant& wanted, int64_t first_channel, int64_t slice);
  void place_weights(const float* weights, std::byte* to);
  Status pack_weights();
  int64_t slice_channels() const { return shape_.in_channels / split_.slices; }
  size_t reserve(size_t bytes) {
    const size_t at = scratch_bytes_;
    scratch_bytes_ += (bytes + 63) / 64 * 64;
    return at;
  }
  struct Affine {
    const float *bias, *scale, *shift;  // by output channel, or null
  };
  void run_task(Task& task, const float* src, const Affine& affine, const float* residual, float* dst,
                std::byte* scratch);

  ConvCall call_;
  ConvShape shape_;  // call_.shape, with the points of a pointwise convolution as one row axis
  Split split_;
  std::vector<Variant> variants_;
  std::vector<Packed> packed_;
  OwnedBlock packed_memory_;
  size_t packed_bytes_ = 0;
  std::vector<Task> tasks_;
  size_t src_offset_ = 0, dst_offset_ = 0, residual_offset_ = 0;  // of transposed copies in scratch
};

dnnl_format_tag_t channels_last_tag(size_t n) { return n == 1 ? dnnl_nwc : n == 2 ? dnnl_nhwc : dnnl_ndhwc; }

Shape image_dims(int64_t channels, int64_t rows, const Shape& spatial) {
  Shape dims{1, channels, rows};
  dims.insert(dims.end(), spatial.begin() + 1, spatial.end());
  return dims;
}

Result<Primitive> BlockedConv::create(const Variant& v) {
  const ConvShape& s = shape_;
  const size_t n = s.in.size();
  const auto src = onednn::of_tag(image_dims(slice_channels(), v.rows_in, s.in), channels_last_tag(n));
  const auto dst = onednn::of_tag(image_dims(v.channels, v.rows_out, s.out), channels_last_tag(n));
  Shape weight_dims{v.channels / s.groups, slice_channels() / s.groups};
  if (s.groups > 1) weight_dims.insert(weight_dims.begin(), s.groups);
  weight_dims.insert(weight_dims.end(), s.kernel.begin(), s.kernel.end());
  const auto weights = onednn::any(weight_dims);
  const auto bias = onednn::of_tag({v.channels}, dnnl_a);
  Shape before = s.padding, after = s.padding_end, dilation = s.dilation;
  before[0] = v.before;
  after[0] = v.after;
  for (int64_t& d : dilation) --d;  // oneDNN counts the gaps
  PostOps ops;
  // A norm comes before the residual.
  if (!v.first || (call_.residual && !call_.norm)) ops.sum();
  const bool with_bias = call_.bias && v.first;
  if (s.transposed) {
    dnnl_deconvolution_desc_t desc;
    if (dnnl_dilated_deconvolution_forward_desc_init(&desc, dnnl_forward_inference, dnnl_deconvolution_direct,
                                                     &src, &weights, with_bias ? &bias : nullptr, &dst,
                                                     s.stride.data(), dilation.data(), before.data(),
                                                     after.data()) != dnnl_success)
      return unsupported("oneDNN does not describe this transposed convolution");
    return Primitive::create(&desc, ops);
  }
  dnnl_convolution_desc_t desc;
  if (dnnl_dilated_convolution_forward_desc_init(
          &desc, dnnl_forward_inference, dnnl_convolution_direct, &src, &weights, with_bias ? &bias : nullptr,
          &dst, s.stride.data(), dilation.data(), before.data(), after.data()) != dnnl_success)
    return unsupported("oneDNN does not describe this convolution");
  return Primitive::create(&desc, ops);
}

Result<size_t> BlockedConv::variant(const Variant& v) {
  for (size_t i = 0; i < variants_.size(); ++i) {
    const Variant& o = variants_[i];
    if (o.rows_in == v.rows_in && o.rows_out == v.rows_out && o.before == v.before && o.after == v.after &&
        o.channels == v.channels && o.first == v.first)
      return i;
  }
  SF_ASSIGN(Primitive primitive, create(v));
  variants_.push_back({v.rows_in, v.rows_out, v.before, v.after, v.channels, v.first, std::move(primitive)});
  return variants_.size() - 1;
}

Result<size_t> BlockedConv::packed(int64_t first, int64_t channels, int64_t first_in,
                                   const dnnl_memory_desc_t& desc) {
  for (size_t i = 0; i < packed_.size(); ++i) {
    const Packed& p = packed_[i];
    if (p.first == first && p.channels == channels && p.first_in == first_in &&
        dnnl_memory_desc_equal(&p.desc, &desc))
      return i;
  }
  const ConvShape& s = shape_;
  const int64_t taps = numel(s.kernel), group_in = s.in_channels / s.groups,
                group_out = s.out_channels / s.groups;
  Shape dims{channels / s.groups, slice_channels() / s.groups}, strides;
  if (s.transposed)
    strides = {taps, group_out * taps};
  else
    strides = {group_in * taps, taps};
  if (s.groups > 1) {
    dims.insert(dims.begin(), s.groups);
    strides.insert(strides.begin(), group_in * group_out * taps);
  }
  const Shape tap_strides = contiguous_strides(s.kernel);
  dims.insert(dims.end(), s.kernel.begin(), s.kernel.end());
  strides.insert(strides.end(), tap_strides.begin(), tap_strides.end());
  const auto plain = onednn::of_strides(dims, strides);

  Packed p{first,         channels,     first_in, desc, dnnl_memory_desc_get_size(&desc),
           Memory(plain), Memory(desc), {},       0};
  SF_ASSIGN(p.reorder, Primitive::reorder(plain, desc));
  if (!call_.weights && p.reorder.scratch_bytes() > 0)
    return unsupported("oneDNN needs scratch to reorder these weights");
  if (call_.weights) {
    p.offset = packed_bytes_;
    packed_bytes_ += (p.size_bytes + 63) / 64 * 64;
  } else {
    p.offset = reserve(p.size_bytes);
  }
  packed_.push_back(std::move(p));
  return packed_.size() - 1;
}

void BlockedConv::place_weights(const float* weights, std::byte* to) {
  const ConvShape& s = call_.shape;
  const int64_t channel_stride = (s.transposed ? 1 : s.in_channels / s.groups) * numel(s.kernel);
  for (Packed& p : packed_) {
    p.source.set(weights + p.first * channel_stride + p.first_in * numel(s.kernel));
    p.packed.set(to + p.offset);
  }
}

// Constant weights, all in one piece of memory.
Status BlockedConv::pack_weights() {
  SF_ASSIGN(packed_memory_, OwnedBlock::take(*call_.allocator, packed_bytes_, "packed weights"));
  size_t scratch_bytes = 0;
  for (const Packed& p : packed_) scratch_bytes = std::max(scratch_bytes, p.reorder.scratch_bytes());
  OwnedBlock room;
  if (scratch_bytes > 0) {
    SF_ASSIGN(room, OwnedBlock::take(*call_.allocator, scratch_bytes, "packing weights"));
  }
  place_weights(call_.weights, packed_memory_.data());
  for (Packed& p : packed_) {
    const Memory scratch(p.reorder.desc(dnnl_query_scratchpad_md), room.data());
    const dnnl_exec_arg_t args[] = {
        {DNNL_ARG_FROM, p.source.get()}, {DNNL_ARG_TO, p.packed.get()}, {DNNL_ARG_SCRATCHPAD, scratch.get()}};
    p.reorder.execute(args);
    p.reorder = {};
    p.source = {};
  }
  return ok_status();
}

Result<Part> BlockedConv::part(const Variant& wanted, int64_t first_channel, int64_t slice) {
  Part out{};
  out.first_in = slice * slice_channels();
  SF_ASSIGN(out.variant, variant(wanted));
  const Primitive& primitive = variants_[out.variant].primitive;
  SF_ASSIGN(out.packed,
            packed(first_channel, wanted.channels, out.first_in, primitive.desc(dnnl_query_weights_md)));
  out.scratch_offset = reserve(primitive.scratch_bytes());
  out.src = Memory(primitive.desc(dnnl_query_src_md));
  out.dst = Memory(primitive.desc(dnnl_query_dst_md));
  out.scratch = Memory(primitive.desc(dnnl_query_scratchpad_md));
  out.args = {{DNNL_ARG_SRC, out.src.get()},
              {DNNL_ARG_DST, out.dst.get()},
              {DNNL_ARG_WEIGHTS, packed_[out.packed].packed.get()},
              {DNNL_ARG_SCRATCHPAD, out.scratch.get()}};
  if (call_.bias && wanted.first) {
    out.bias = Memory(primitive.desc(dnnl_query_weights_md, 1));
    out.args.push_back({DNNL_ARG_BIAS, out.bias.get()});
  }
  return out;
}

// [first, last) of block i of n; blocks differ by one unit at most.
int64_t edge(int64_t i, int64_t n, int64_t extent, int64_t unit = 1) {
  return i == n ? extent : i * (extent / unit) / n * unit;
}

Status BlockedConv::add_tasks() {
  const ConvShape& s = shape_;
  const int64_t in_row = s.in_points() / s.in[0] * s.in_channels,
                out_row = s.out_points() / s.out[0] * s.out_channels;
  for (int64_t image = 0; image < s.batch; ++image) {
    for (int64_t c = 0; c < split_.channels; ++c) {
      for (int64_t r = 0; r < split_.rows; ++r) {
        const int64_t first = edge(r, split_.rows, s.out[0]), last = edge(r + 1, split_.rows, s.out[0]);
        // oneDNN packs channels in whole blocks, of 32 when it can: others would be padding.
        const int64_t unit = s.out_channels % 32 == 0 ? 32 : 16;
        const int64_t channel = edge(c, split_.channels, s.out_channels, unit);
        const int64_t channels = edge(c + 1, split_.channels, s.out_channels, unit) - channel;
        Variant v{s.in[0], last - first, s.padding[0], s.padding_end[0], channels, true, {}};
        int64_t top = 0;
        if (split_.rows > 1) {  // the rows that the block reads
          top = first * s.stride[0] - s.padding[0];
          int64_t bottom = (last - 1) * s.stride[0] - s.padding[0] + s.dilation[0] * (s.kernel[0] - 1) + 1;
          v.before = std::max<int64_t>(0, -top);
          v.after = std::max<int64_t>(0, bottom - s.in[0]);
          top = std::max<int64_t>(top, 0);
          bottom = std::min(bottom, s.in[0]);
          v.rows_in = bottom - top;
          if (v.rows_in < 1) return unsupported("a block of rows lies in the padding");
        }
        Task task{};
        for (int64_t slice = 0; slice < split_.slices; ++slice) {
          v.first = slice == 0;
          SF_ASSIGN(Part next, part(v, channel, slice));
          task.parts.push_back(std::move(next));
        }
        task.src = image * s.in_points() * s.in_channels + top * in_row;
        task.dst = image * s.out_points() * s.out_channels + first * out_row + channel;
        task.first_channel = channel;
        task.channels = channels;
        task.points_in = v.rows_in * (s.in_points() / s.in[0]);
        task.points = (last - first) * (s.out_points() / s.out[0]);
        if (split_.slices > 1)
          task.slice_offset = reserve(static_cast<size_t>(task.points_in * slice_channels()) * sizeof(float));
        if (split_.channels > 1)
          task.tile_offset = reserve(static_cast<size_t>(task.points * channels) * sizeof(float));
        tasks_.push_back(std::move(task));
      }
    }
  }
  return ok_status();
}

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
  if (call.weights) SF_TRY(kernel->pack_weights());
  return std::unique_ptr<Kernel>(std::move(kernel));
}

void BlockedConv::run_task(Task& task, const float* src, const Affine& affine, const float* residual,
                           float* dst, std::byte* scratch) {
  const int64_t channels = task.channels, row = shape_.out_channels;
  const bool tiled = split_.channels > 1;
  float* out = dst + task.dst;
  float* result = tiled ? reinterpret_cast<float*>(scratch + task.tile_offset) : out;
  if (residual && !call_.norm) {  // oneDNN adds to what is there
    const float* from = residual + task.dst;
    if (!tiled && from != result)
      std::memcpy(result, from, static_cast<size_t>(task.points * channels) * sizeof(float));
    if (tiled) {
      for (int64_t p = 0; p < task.points; ++p)
        std::memcpy(result + p * channels, from + p * row, static_cast<size_t>(channels) * sizeof(float));
    }
  }
  for (Part& part : task.parts) {
    const float* from = src + task.src;
    if (split_.slices > 1) {
      auto* slice = reinterpret_cast<float*>(scratch + task.slice_offset);
      const int64_t wide = shape_.in_channels, narrow = slice_channels();
      for (int64_t p = 0; p < task.points_in; ++p)
        std::memcpy(slice + p * narrow, from + p * wide + part.first_in,
                    static_cast<size_t>(narrow) * sizeof(float));
      from = slice;
    }
    part.src.set(from);
    part.dst.set(result);
    part.scratch.set(scratch + part.scratch_offset);
    if (part.bias.get()) part.bias.set(affine.bias + task.first_channel);
    variants_[part.variant].primitive.execute(part.args);
  }
  if (call_.norm) {
    for (int64_t p = 0; p < task.points; ++p)
      scale_row_f32(result + p * channels, affine.scale + task.first_channel,
                    affine.shift + task.first_channel, residual ? residual + task.dst + p * row : nullptr,
                    static_cast<size_t>(channels));
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
  const float* src = b.input<float>(0);
  const Affine affine{call_.bias ? b.input<float>(2) : nullptr, call_.norm ? b.input<float>(4) : nullptr,
                      call_.norm ? b.input<float>(5) : nullptr};
  const float* residual = call_.residual ? b.input<float>(3) : nullptr;
  float* dst = b.output<float>();
  if (!call_.weights) {
    place_weights(b.input<float>(1), b.scratch);
    b.pool.for_each(packed_.size(), [&](size_t i) {
      const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, packed_[i].source.get()},
                                      {DNNL_ARG_TO, packed_[i].packed.get()}};
      packed_[i].reorder.execute(args);
    });
  }
  if (call_.row_major_in) {
    auto* copy = reinterpret_cast<float*>(b.scratch + src_offset_);
    to_channels_last(b.pool, src, copy, s.batch, s.in_channels, s.in_points());
    src = copy;
  }
  if (call_.row_major_out) dst = reinterpret_cast<float*>(b.scratch + dst_offset_);
  if (residual && call_.row_major_residual) {
    // Summed into dst by oneDNN, or read beside it after the norm.
    float* copy = call_.norm ? reinterpret_cast<float*>(b.scratch + residual_offset_) : dst;
    to_channels_last(b.pool, residual, copy, s.batch, s.out_channels, s.out_points());
    residual = copy;
  }
  b.pool.for_each(tasks_.size(),
                  [&](size_t i) { run_task(tasks_[i], src, affine, residual, dst, b.scratch); });
  if (call_.row_major_out)
    to_row_major(b.pool, dst, b.output<float>(), s.batch, s.out_channels, s.out_points());
  return ok_status();
}

}  // namespace

KernelResult make_blocked_conv(const ConvCall& call) { return BlockedConv::make(call); }

}  // namespace sixfold::cpu
