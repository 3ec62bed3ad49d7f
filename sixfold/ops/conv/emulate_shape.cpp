#include <algorithm>
#include <tuple>

#include "sixfold/ops/conv/emulate.h"

namespace sixfold::emulator {

static constexpr int64_t kLargest = 1 << 24;  // of a parameter

// Where the words of a parameter are not at hand, as when an op is only asked about: nothing to compare.
static bool has_words(const OpView& op, std::string_view name) {
  return !op.find(name) || !op.words(name).empty();
}

int64_t ConvShape::weight_index(int64_t ky, int64_t kx, int64_t input, int64_t output) const {
  const int64_t tap = ky * window.width + kx;
  if (depthwise_weights) return tap * window.out_channels + output;  // [h, w, 1, out]
  if (!transposed) return (tap * window.inputs() + input) * window.out_channels + output;
  // [h, w, in, out of a group]
  const int64_t group = output / window.outputs();
  return (tap * window.in_channels + group * window.inputs() + input) * window.outputs() +
         output % window.outputs();
}

Result<ConvShape> read_conv(const OpView& op) {
  const TensorDef &x = op.in(0), &f = op.in(1), &y = op.out();
  ConvShape s;
  s.transposed = op.type.starts_with("Transpose");
  s.depthwise_weights = op.type.starts_with("DepthWise");
  for (const TensorDef* t : {&x, &f, &y})
    if (t->rank() != 4) return unsupported("a tensor has rank ", t->rank(), ", not 4");
  cpu::QuantWindow& w = s.window;
  w.batch = x.dims[0], w.in_height = x.dims[1], w.in_width = x.dims[2], w.in_channels = x.dims[3];
  w.out_height = y.dims[1], w.out_width = y.dims[2], w.out_channels = y.dims[3];
  w.height = f.dims[0], w.width = f.dims[1];
  w.groups = s.depthwise_weights ? x.dims[3] : op.u32("group", 1);
  if (y.dims[0] != x.dims[0])
    return unsupported("in[0] has a batch of ", x.dims[0], ", out[0] of ", y.dims[0]);
  if (x.count() == 0 || f.count() == 0 || y.count() == 0) return unsupported("a tensor is empty");
  if (w.groups < 1 || w.in_channels % w.groups != 0 || w.out_channels % w.groups != 0)
    return unsupported("group is ", w.groups, " for ", w.in_channels, " channels in and ", w.out_channels,
                       " out");
  const int64_t in = s.depthwise_weights ? 1 : s.transposed ? w.in_channels : w.inputs();
  const int64_t out = s.transposed ? w.outputs() : w.out_channels;
  if (f.dims[2] != in || f.dims[3] != out)
    return unsupported("in[1] has ", f.dims[2], " channels in and ", f.dims[3], " out, not ", in, " and ",
                       out);
  if (const TensorDef& b = op.in(2); b.is_present() && b.count() != w.out_channels)
    return invalid_argument("in[2] has ", b.count(), " elements for ", w.out_channels, " channels");
  const auto stride = op.words("stride"), pads = op.words("pad_amount"), dilation = op.words("dilation"),
             extra = op.words("output_padding");
  for (const auto& [words, count, name] : {std::tuple{stride, size_t{2}, "stride"},
                                           {pads, size_t{4}, "pad_amount"},
                                           {dilation, size_t{2}, "dilation"},
                                           {extra, size_t{2}, "output_padding"}}) {
    if (!words.empty() && words.size() != count)
      return unsupported(name, " has ", words.size(), " numbers, not ", count);
    for (const uint32_t v : words)
      if (v > kLargest) return unsupported(name, " is ", v);
  }
  const auto word = [](std::span<const uint32_t> words, size_t i, uint32_t otherwise) {
    return static_cast<int64_t>(words.empty() ? otherwise : words[i]);
  };
  s.stride_y = word(stride, 0, 1), s.stride_x = word(stride, 1, 1);
  w.dilation_y = word(dilation, 0, 1), w.dilation_x = word(dilation, 1, 1);
  if (s.stride_y < 1 || s.stride_x < 1 || w.dilation_y < 1 || w.dilation_x < 1)
    return unsupported("stride or dilation is 0");
  w.pad_top = word(pads, 0, 0), w.pad_left = word(pads, 2, 0);
  if (!s.transposed) w.stride_y = s.stride_y, w.stride_x = s.stride_x;
  if (s.transposed && (w.dilation_y != 1 || w.dilation_x != 1))
    return unsupported("a transposed convolution has a dilation of ", w.dilation_y, " by ", w.dilation_x);
  if (!has_words(op, "stride") || !has_words(op, "pad_amount") || !has_words(op, "dilation") ||
      !has_words(op, "output_padding"))
    return s;
  const auto extent = [&](int64_t n, int64_t taps, int64_t step, int64_t gap, int64_t pad, int64_t more) {
    return s.transposed ? (n - 1) * step + gap * (taps - 1) + 1 - pad + more
                        : (n + pad - gap * (taps - 1) - 1) / step + 1;
  };
  const int64_t height = extent(w.in_height, w.height, s.stride_y, w.dilation_y, w.pad_top + word(pads, 1, 0),
                                word(extra, 0, 0));
  const int64_t width =
      extent(w.in_width, w.width, s.stride_x, w.dilation_x, w.pad_left + word(pads, 3, 0), word(extra, 1, 0));
  if (height != w.out_height || width != w.out_width)
    return unsupported("out[0] is ", w.out_height, " by ", w.out_width, ", the window gives ", height, " by ",
                       width);
  return s;
}

// One side of a phase: every stride-th tap, backwards.
struct Side {
  int64_t first, count, pad, out;
};
static Side side_of(int64_t phase, int64_t pad, int64_t stride, int64_t taps, int64_t extent) {
  Side s;
  s.first = (phase + pad) % stride;
  s.count = s.first < taps ? (taps - 1 - s.first) / stride + 1 : 0;
  s.pad = std::max<int64_t>(s.count, 1) - 1 - (phase + pad - s.first) / stride;
  s.out = (extent - phase + stride - 1) / stride;
  return s;
}

std::vector<ConvPhase> phases_of(const ConvShape& s) {
  const cpu::QuantWindow& w = s.window;
  if (!s.transposed) return {{w, 0, 0, 0, 0, 1, 1}};
  std::vector<ConvPhase> phases;
  for (int64_t py = 0; py < std::min(s.stride_y, w.out_height); ++py)
    for (int64_t px = 0; px < std::min(s.stride_x, w.out_width); ++px) {
      const Side y = side_of(py, w.pad_top, s.stride_y, w.height, w.out_height);
      const Side x = side_of(px, w.pad_left, s.stride_x, w.width, w.out_width);
      ConvPhase p{w, py, px, y.first, x.first, s.stride_y, s.stride_x};
      p.empty = y.count == 0 || x.count == 0;
      p.window.height = std::max<int64_t>(1, y.count), p.window.width = std::max<int64_t>(1, x.count);
      p.window.pad_top = y.pad, p.window.pad_left = x.pad;
      p.window.out_height = y.out, p.window.out_width = x.out;
      phases.push_back(p);
    }
  return phases;
}

int64_t ConvPhase::weight_index(const ConvShape& s, int64_t tap, int64_t input, int64_t output) const {
  if (empty) return -1;
  int64_t ky = tap / window.width, kx = tap % window.width;
  if (s.transposed) {
    ky = tap_y + s.stride_y * (window.height - 1 - ky);
    kx = tap_x + s.stride_x * (window.width - 1 - kx);
  }
  return s.weight_index(ky, kx, input, output);
}

}  // namespace sixfold::emulator
