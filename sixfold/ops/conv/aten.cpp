// ATen's convolutions -> convolution.
#include "sixfold/ops/aten.h"

#include "sixfold/ops/rule_table.h"

namespace sixfold::aten {
namespace {

struct Window {
  Shape stride, padding, padding_end, dilation, output_padding;
  int64_t groups = 1;
  bool transposed = false;
};

// n spatial axes. An input without its batch axis gets one for the op.
Status convolve(Call& call, ValueId x, ValueId w, ValueId b, size_t n, Window window) {
  if (!call.ok()) return {};
  if (window.padding_end.empty()) window.padding_end = window.padding;
  if (window.output_padding.empty()) window.output_padding.assign(n, 0);
  const bool batched = call.rank(x) != static_cast<int64_t>(n) + 1;
  std::vector<ValueId> inputs = {batched ? x : call.unsqueeze(x, 0), w};
  if (b.valid()) inputs.push_back(b);
  ValueId y = call.op(Op::convolution, std::move(inputs),
                      {{"stride", to_dims(window.stride)},
                       {"padding", to_dims(window.padding)},
                       {"padding_end", to_dims(window.padding_end)},
                       {"dilation", to_dims(window.dilation)},
                       {"groups", Dim(window.groups)},
                       {"transposed", window.transposed},
                       {"output_padding", to_dims(window.output_padding)},
                       {"activation", std::string("none")}});
  if (!batched && call.ok()) {
    const Dims& dims = call.dims_of(y);
    y = call.reshape(y, Dims(dims.begin() + 1, dims.end()));
  }
  return call.result(y);
}

// Spatial axes as the weights say; 0 with an error recorded when there are none.
size_t spatial_axes(Call& call, ValueId w) {
  const int64_t rank = call.ok() ? call.rank(w) : 0;
  if (rank < 3 || rank > 5) {
    call.fail(Code::InvalidModel, "weights of a convolution have rank ", rank, ", expected 3 to 5");
    return 0;
  }
  return static_cast<size_t>(rank - 2);
}

// conv1d, conv2d, conv3d and the internal names with the same arguments
Status conv(Call& call) {
  const ValueId w = call.tensor("weight");
  const size_t n = spatial_axes(call, w);
  return convolve(call, call.tensor("input"), w, call.optional_tensor("bias"), n,
                  {.stride = call.ints_n("stride", n, 1),
                   .padding = call.ints_n("padding", n),
                   .padding_end = {},
                   .dilation = call.ints_n("dilation", n, 1),
                   .output_padding = {},
                   .groups = call.integer("groups")});
}

// padding "same" puts the odd one of an even kernel's zeros at the end.
Status conv_named_padding(Call& call) {
  const ValueId w = call.tensor("weight");
  const size_t n = spatial_axes(call, w);
  Window window{.stride = call.ints_n("stride", n, 1),
                .padding = Shape(n, 0),
                .padding_end = Shape(n, 0),
                .dilation = call.ints_n("dilation", n, 1),
                .output_padding = {},
                .groups = call.integer("groups")};
  const std::string padding = call.text("padding");
  if (!call.ok()) return {};
  if (padding == "same") {
    for (size_t i = 0; i < n; ++i) {
      const Dim kernel = call.dims_of(w)[i + 2];
      if (!kernel.is_static()) return call.unsupported("padding 'same' needs weights of static shape");
      if (window.stride[i] != 1) return invalid_model("padding 'same' with stride ", window.stride);
      const int64_t total = window.dilation[i] * (kernel.value() - 1);
      window.padding[i] = total / 2;
      window.padding_end[i] = total - total / 2;
    }
  } else if (padding != "valid") {
    return invalid_model("padding '", padding, "', expected 'same' or 'valid'");
  }
  return convolve(call, call.tensor("input"), w, call.optional_tensor("bias"), n, std::move(window));
}

// conv_transpose1d, 2d, 3d
Status conv_transpose(Call& call) {
  const ValueId w = call.tensor("weight");
  const size_t n = spatial_axes(call, w);
  return convolve(call, call.tensor("input"), w, call.optional_tensor("bias"), n,
                  {.stride = call.ints_n("stride", n, 1),
                   .padding = call.ints_n("padding", n),
                   .padding_end = {},
                   .dilation = call.ints_n("dilation", n, 1),
                   .output_padding = call.ints_n("output_padding", n),
                   .groups = call.integer("groups"),
                   .transposed = true});
}

// convolution and _convolution
Status convolution(Call& call) {
  const ValueId w = call.tensor("weight");
  const size_t n = spatial_axes(call, w);
  const bool transposed = call.flag("transposed");
  return convolve(call, call.tensor("input"), w, call.optional_tensor("bias"), n,
                  {.stride = call.ints_n("stride", n, 1),
                   .padding = call.ints_n("padding", n),
                   .padding_end = {},
                   .dilation = call.ints_n("dilation", n, 1),
                   .output_padding = transposed ? call.ints_n("output_padding", n) : Shape{},
                   .groups = call.integer("groups"),
                   .transposed = transposed});
}

// The names of single CPU implementations. kernel_size repeats the weights' extents; groups are one, or for a
// depthwise name one per channel.
Window implementation_window(Call& call, size_t n) {
  return {.stride = call.ints_n("stride", n, 1),
          .padding = call.ints_n("padding", n),
          .padding_end = {},
          .dilation = call.is_none("dilation") ? Shape(n, 1) : call.ints_n("dilation", n, 1),
          .output_padding = call.is_none("output_padding") ? Shape(n, 0) : call.ints_n("output_padding", n)};
}
Status implementation(Call& call) {
  const ValueId w = call.tensor("weight");
  const size_t n = spatial_axes(call, w);
  return convolve(call, call.tensor("self"), w, call.optional_tensor("bias"), n,
                  implementation_window(call, n));
}
Status implementation_transposed(Call& call) {
  const ValueId w = call.tensor("weight");
  const size_t n = spatial_axes(call, w);
  Window window = implementation_window(call, n);
  window.transposed = true;
  return convolve(call, call.tensor("self"), w, call.optional_tensor("bias"), n, std::move(window));
}
Status implementation_depthwise(Call& call) {
  const ValueId x = call.tensor("self"), w = call.tensor("weight");
  const size_t n = spatial_axes(call, w);
  Window window = implementation_window(call, n);
  if (!call.ok()) return {};
  const size_t channel = call.rank(x) == static_cast<int64_t>(n) + 1 ? 0 : 1;
  if (call.rank(x) <= static_cast<int64_t>(channel)) return invalid_model("convolution of ", call.type(x));
  if (!call.dims_of(x)[channel].is_static())
    return call.unsupported("a depthwise convolution needs static channels");
  window.groups = call.dims_of(x)[channel].value();
  return convolve(call, x, w, call.optional_tensor("bias"), n, std::move(window));
}

// conv_tbc(x: [T, B, C], w: [K, C, O], b: [O]) = conv1d over T
Status conv_tbc(Call& call) {
  const ValueId x = call.tensor("self"), w = call.tensor("weight"), b = call.tensor("bias");
  const int64_t pad = call.integer("pad");
  if (!call.ok()) return {};
  if (call.rank(x) != 3 || call.rank(w) != 3)
    return invalid_model("conv_tbc of ", call.type(x), " with ", call.type(w));
  const ValueId y = call.op(Op::convolution, {call.permute(x, {1, 2, 0}), call.permute(w, {2, 1, 0}), b},
                            {{"stride", Dims{1}},
                             {"padding", Dims{pad}},
                             {"padding_end", Dims{pad}},
                             {"dilation", Dims{1}},
                             {"groups", Dim(1)},
                             {"transposed", false},
                             {"output_padding", Dims{0}},
                             {"activation", std::string("none")}});
  return call.result(call.permute(y, {2, 0, 1}));
}

constexpr AtenRule kRules[] = {
    {"aten.conv1d.default", conv},
    {"aten.conv2d.default", conv},
    {"aten.conv3d.default", conv},
    {"aten.conv1d.padding", conv_named_padding},
    {"aten.conv2d.padding", conv_named_padding},
    {"aten.conv3d.padding", conv_named_padding},
    {"aten._convolution_mode.default", conv_named_padding},
    {"aten.conv_transpose1d.default", conv_transpose},
    {"aten.conv_transpose2d.input", conv_transpose},
    {"aten.conv_transpose3d.input", conv_transpose},
    {"aten.convolution.default", convolution},
    {"aten.convolution_overrideable.default", convolution},
    {"aten._convolution.default", convolution},
    {"aten._convolution.deprecated", convolution},
    {"aten.thnn_conv2d.default", implementation},
    {"aten._slow_conv2d_forward.default", implementation},
    {"aten.slow_conv3d.default", implementation},
    {"aten.slow_conv3d_forward.default", implementation},
    {"aten.slow_conv_dilated2d.default", implementation},
    {"aten.slow_conv_dilated3d.default", implementation},
    {"aten.slow_conv_transpose2d.default", implementation_transposed},
    {"aten.slow_conv_transpose3d.default", implementation_transposed},
    {"aten._conv_depthwise2d.default", implementation_depthwise},
    {"aten.conv_depthwise3d.default", implementation_depthwise},
    {"aten.conv_tbc.default", conv_tbc},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> conv_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
