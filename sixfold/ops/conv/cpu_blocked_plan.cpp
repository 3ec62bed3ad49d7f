// f32 convolution by oneDNN: how it is cut, its primitives and packed weights (blocked.h).
#include <algorithm>
#include <thread>

#include "sixfold/ops/conv/blocked.h"

namespace sixfold::cpu::blocked {
namespace {

using onednn::PostOps;

constexpr int64_t kLeastPoints = 28;    // of a block of rows: fewer leave the matrix unit idle
constexpr int64_t kLeastChannels = 64;  // of a block of channels
constexpr int64_t kTaskWork = 1 << 20;  // multiplications worth a task, about 15 us
constexpr int64_t kMostTasks = 16;
constexpr int64_t kMostTerms = 512;       // of one chain of additions, where the channels can be cut
constexpr int64_t kSliceTerms = 128;      // of the chains that a longer one is cut into
constexpr int64_t kLeastSlice = 32;       // input channels
constexpr int64_t kTransposedUses = 256;  // multiplications with an input that outweigh its transpose

}  // namespace

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

namespace {

dnnl_format_tag_t channels_last_tag(size_t n) { return n == 1 ? dnnl_nwc : n == 2 ? dnnl_nhwc : dnnl_ndhwc; }

Shape image_dims(int64_t channels, int64_t rows, const Shape& spatial) {
  Shape dims{1, channels, rows};
  dims.insert(dims.end(), spatial.begin() + 1, spatial.end());
  return dims;
}

}  // namespace

Result<Primitive> BlockedPlan::create(const Variant& v) {
  const ConvShape& s = shape;
  const size_t n = s.in.size();
  const dnnl_data_type_t factors = bf16 ? dnnl_bf16 : dnnl_f32;
  const auto src =
      onednn::of_tag(image_dims(slice_channels(), v.rows_in, s.in), channels_last_tag(n), factors);
  const auto dst = onednn::of_tag(image_dims(v.channels, v.rows_out, s.out), channels_last_tag(n));
  Shape weight_dims{v.channels / s.groups, slice_channels() / s.groups};
  if (s.groups > 1) weight_dims.insert(weight_dims.begin(), s.groups);
  weight_dims.insert(weight_dims.end(), s.kernel.begin(), s.kernel.end());
  const auto weights = onednn::any(weight_dims, factors);
  const auto bias_desc = onednn::of_tag({v.channels}, dnnl_a);
  Shape before = s.padding, after = s.padding_end, dilation = s.dilation;
  before[0] = v.before;
  after[0] = v.after;
  for (int64_t& d : dilation) --d;  // oneDNN counts the gaps
  PostOps ops;
  if (adds()) ops.sum();
  const bool with_bias = primitives_add_bias();
  if (s.transposed) {
    dnnl_deconvolution_desc_t desc;
    if (dnnl_dilated_deconvolution_forward_desc_init(&desc, dnnl_forward_inference, dnnl_deconvolution_direct,
                                                     &src, &weights, with_bias ? &bias_desc : nullptr, &dst,
                                                     s.stride.data(), dilation.data(), before.data(),
                                                     after.data()) != dnnl_success)
      return unsupported("oneDNN does not describe this transposed convolution");
    return Primitive::create(&desc, ops);
  }
  dnnl_convolution_desc_t desc;
  if (dnnl_dilated_convolution_forward_desc_init(&desc, dnnl_forward_inference, dnnl_convolution_direct, &src,
                                                 &weights, with_bias ? &bias_desc : nullptr, &dst,
                                                 s.stride.data(), dilation.data(), before.data(),
                                                 after.data()) != dnnl_success)
    return unsupported("oneDNN does not describe this convolution");
  return Primitive::create(&desc, ops);
}

Result<size_t> BlockedPlan::variant(const Variant& v) {
  for (size_t i = 0; i < variants.size(); ++i) {
    const Variant& o = variants[i];
    if (o.rows_in == v.rows_in && o.rows_out == v.rows_out && o.before == v.before && o.after == v.after &&
        o.channels == v.channels)
      return i;
  }
  SF_ASSIGN(Primitive primitive, create(v));
  const dnnl_memory_desc_t desc = primitive.desc(dnnl_query_weights_md);
  size_t layout = 0;
  while (layout < layouts.size() && !dnnl_memory_desc_equal(&layouts[layout], &desc)) ++layout;
  if (layout == layouts.size()) layouts.push_back(desc);
  variants.push_back({v.rows_in, v.rows_out, v.before, v.after, v.channels, std::move(primitive), layout});
  return variants.size() - 1;
}

size_t BlockedPlan::pack(int64_t first, int64_t first_in, const Variant& user) {
  for (size_t i = 0; i < packed.size(); ++i) {
    const Packed& p = packed[i];
    if (p.first == first && p.channels == user.channels && p.first_in == first_in && p.layout == user.layout)
      return i;
  }
  const size_t bytes = dnnl_memory_desc_get_size(&layouts[user.layout]);
  packed.push_back({first, user.channels, first_in, user.layout, packed_bytes});
  packed_bytes += (bytes + 63) / 64 * 64;
  return packed.size() - 1;
}

Result<Packing> BlockedPlan::packing(const Packed& p) const {
  const ConvShape& s = shape;
  const int64_t taps = numel(s.kernel), group_in = s.in_channels / s.groups,
                group_out = s.out_channels / s.groups;
  Shape dims{p.channels / s.groups, slice_channels() / s.groups}, strides;
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
  Packing out{Memory(plain), Memory(layouts[p.layout]), {}};
  SF_ASSIGN(out.reorder, Primitive::reorder(plain, layouts[p.layout]));
  return out;
}

// Weights that come with each run.
Status BlockedPlan::prepare_packing() {
  const size_t begin = reserve(packed_bytes);
  for (Packed& p : packed) {
    p.offset += begin;
    SF_ASSIGN(Packing to, packing(p));
    if (to.reorder.scratch_bytes() > 0) return unsupported("oneDNN needs scratch to reorder these weights");
    packings.push_back(std::move(to));
  }
  return ok_status();
}

// [first, last) of block i of n; blocks differ by one unit at most.
static int64_t edge(int64_t i, int64_t n, int64_t extent, int64_t unit = 1) {
  return i == n ? extent : i * (extent / unit) / n * unit;
}

Status BlockedPlan::add_tasks() {
  const ConvShape& s = shape;
  variants.clear();
  layouts.clear();
  packed.clear();
  packed_bytes = 0;
  tasks.clear();
  const int64_t in_row = s.in_points() / s.in[0], out_row = s.out_points() / s.out[0];
  for (int64_t image = 0; image < s.batch; ++image) {
    for (int64_t c = 0; c < split.channels; ++c) {
      for (int64_t r = 0; r < split.rows; ++r) {
        const int64_t first = edge(r, split.rows, s.out[0]), last = edge(r + 1, split.rows, s.out[0]);
        // oneDNN packs channels in whole blocks, of 32 when it can: others would be padding.
        const int64_t unit = s.out_channels % 32 == 0 ? 32 : 16;
        const int64_t channel = edge(c, split.channels, s.out_channels, unit);
        const int64_t channels = edge(c + 1, split.channels, s.out_channels, unit) - channel;
        Variant v{s.in[0], last - first, s.padding[0], s.padding_end[0], channels, {}, 0};
        int64_t top = 0;
        if (split.rows > 1) {  // the rows that the block reads
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
        SF_ASSIGN(task.variant, variant(v));
        for (int64_t slice = 0; slice < split.slices; ++slice)
          task.slices.push_back(pack(channel, slice * slice_channels(), variants[task.variant]));
        task.image = image;
        task.first_in = top * in_row;
        task.points_in = v.rows_in * in_row;
        task.first = first * out_row;
        task.points = (last - first) * out_row;
        task.first_channel = channel;
        task.channels = channels;
        tasks.push_back(std::move(task));
      }
    }
  }
  return ok_status();
}

// Whether tasks may each transpose what they read: little of it is read by several, or they copy it in any
// case and do much with it.
bool BlockedPlan::transposes_in_tasks() const {
  int64_t points = 0, channels = shape.out_channels;
  for (const Task& task : tasks) {
    points += task.points_in;
    channels = std::min(channels, task.channels);
  }
  return points * 4 <= shape.batch * shape.in_points() * 5 ||
         (split.slices > 1 && numel(shape.kernel) * channels >= kTransposedUses);
}

void BlockedPlan::add_lanes() {
  const auto elements = static_cast<size_t>(shape.batch * shape.in_points() * shape.in_channels);
  if (row_major_in && (bf16 || picking || !transposes_in_tasks()))
    src_offset = reserve(elements * sizeof(float));
  if (bf16) bf16_offset = reserve(elements * sizeof(uint16_t));
  size_t input_bytes = 0, tile_bytes = 0, residual_bytes = 0, primitive_bytes = 0;
  const auto fit = [](size_t& bytes, bool needed, int64_t floats) {
    if (needed) bytes = std::max(bytes, static_cast<size_t>(floats) * sizeof(float));
  };
  for (const Task& task : tasks) {
    fit(input_bytes, tiles_input(), task.points_in * slice_channels());
    fit(tile_bytes, tiles_result(), task.points * task.channels);
    fit(residual_bytes, row_major_residual && norm, task.points * task.channels);
  }
  for (const Variant& v : variants) primitive_bytes = std::max(primitive_bytes, v.primitive.scratch_bytes());
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  lanes.resize(std::min(cores, tasks.size()));
  for (Lane& lane : lanes) {
    lane.input_offset = reserve(input_bytes);
    lane.tile_offset = reserve(tile_bytes);
    lane.residual_offset = reserve(residual_bytes);
    lane.primitive_offset = reserve(primitive_bytes);
    for (const Variant& v : variants) {
      const Primitive& p = v.primitive;
      lane.handles.push_back({Memory(p.desc(dnnl_query_src_md)),
                              Memory(p.desc(dnnl_query_dst_md)),
                              Memory(p.desc(dnnl_query_weights_md)),
                              {},
                              Memory(p.desc(dnnl_query_scratchpad_md))});
      if (primitives_add_bias()) lane.handles.back().bias = Memory(p.desc(dnnl_query_weights_md, 1));
    }
  }
}

std::string BlockedPlan::key(const ConvCall& call) {
  const ConvShape& s = call.shape;
  std::string key = cat("convolution ", s.batch, " ", s.in_channels, " ", s.out_channels, " ", s.groups);
  for (const Shape* list : {&s.in, &s.out, &s.kernel, &s.stride, &s.padding, &s.padding_end, &s.dilation})
    for (const int64_t x : *list) key += cat(" ", x);
  for (const bool flag : {s.transposed, call.row_major_in, call.row_major_out, call.row_major_residual,
                          call.bias, call.residual, call.norm, call.bf16, call.weights != nullptr})
    key += flag ? '1' : '0';
  return key;
}

// All points of a pointwise convolution are alike: one axis of rows, of all images where they lie so.
Status BlockedPlan::make_pointwise(const ConvCall& call) {
  ConvShape& s = shape;
  if (!s.is_pointwise()) {
    if (!row_major_in || !s.reads_single_points()) return ok_status();
    Shape extents{s.batch}, from{s.in_channels * s.in_points()}, to{s.in_channels * s.out_points()};
    const Shape in_strides = contiguous_strides(s.in), out_strides = contiguous_strides(s.out);
    for (size_t i = 0; i < s.in.size(); ++i) {
      extents.push_back(s.out[i]);
      from.push_back(in_strides[i] * s.stride[i]);
      to.push_back(out_strides[i] * s.in_channels);
    }
    extents.push_back(s.in_channels);
    from.push_back(s.in_points());
    to.push_back(1);
    SF_ASSIGN(picking, StridedCopy::make(sizeof(float), extents, from, to));
  }
  const bool images = !call.row_major_in && !call.row_major_out && !call.row_major_residual;
  s.in = s.out = {(images ? s.batch : 1) * s.out_points()};
  if (images) s.batch = 1;
  s.kernel = s.stride = s.dilation = {1};
  s.padding = s.padding_end = {0};
  return ok_status();
}

Result<std::shared_ptr<BlockedPlan>> BlockedPlan::make(const ConvCall& call) {
  auto out = std::make_shared<BlockedPlan>();
  ConvShape& s = out->shape = call.shape;
  out->row_major_in = call.row_major_in;
  out->row_major_out = call.row_major_out;
  out->row_major_residual = call.row_major_residual;
  out->bias = call.bias;
  out->residual = call.residual;
  out->norm = call.norm;
  out->bf16 = call.bf16 && call.weights && s.groups == 1 && !s.transposed && onednn::multiplies_bf16();
  SF_TRY(out->make_pointwise(call));
  Split& split = out->split = choose_split(s);
  if (out->bf16) split.slices = 1;
  SF_TRY(out->add_tasks());
  // oneDNN chooses the layout of weights by the size of a block, and blocks of unequal size may need a copy
  // of the weights each: rather fewer blocks.
  while (split.rows > 1 && out->packed.size() > static_cast<size_t>(split.channels * split.slices)) {
    split.rows /= 2;
    SF_TRY(out->add_tasks());
  }
  out->add_lanes();
  if (!call.weights) SF_TRY(out->prepare_packing());
  return out;
}

}  // namespace sixfold::cpu::blocked
