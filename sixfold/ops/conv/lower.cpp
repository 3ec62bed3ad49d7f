// Convolutions on the NPU: images and volumes, channels last. One spatial axis is an image one pixel high.
#include <algorithm>
#include <utility>

#include "sixfold/lower/merge_axes.h"

namespace sixfold::lower {
namespace {

std::vector<uint32_t> numbers(const Attrs& attrs, const char* name, bool line, uint32_t neutral) {
  std::vector<uint32_t> out;
  if (line) out.push_back(neutral);
  for (const int64_t v : attrs.ints(name)) out.push_back(static_cast<uint32_t>(v));
  return out;
}

// [N, L, C] as an image one pixel high.
std::vector<uint32_t> as_image(std::vector<uint32_t> dims) {
  dims.insert(dims.begin() + 1, 1);
  return dims;
}

// Of a filter of 5 by 5 for each channel that takes steps of two with 16 bits, behind another op, the device
// has the zero point's high byte twice in some of the zeros to the left. With a row and a column of zeros
// more it has another way, which is right.  [htp.conv.6]
bool has_wrong_border(const Lowering& l) {
  const Encoding *x = l.encoding(0), *w = l.encoding(1);
  if (!l.quantized() || !x || x->quant_max - x->quant_min < 256 || !l.constant(1) || !w) return false;
  const Attrs& a = l.attrs();
  const Shape shape = l.constant(1)->shape, padding = a.ints("padding");
  const auto all_are = [](const Shape& values, int64_t n) {
    return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == n; });
  };
  return shape.size() == 4 && shape[2] == 5 && shape[3] == 5 && all_are(a.ints("stride"), 2) &&
         all_are(a.ints("dilation"), 1) && padding[0] > 0 && padding[1] > 0 &&
         std::all_of(w->zero_points.begin(), w->zero_points.end(), [](int32_t z) { return z == 0; });
}

// Filters of nine taps or more for each channel that take steps of two on a grid: with 8 bits the library
// gives anything for up to four channels, and with 16 bits it cannot prepare more. As groups they are right.
// [htp.conv.10]
bool is_long_step(const Lowering& l, const Shape& w) {
  const Shape stride = l.attrs().ints("stride");
  for (size_t i = 0; i < stride.size(); ++i)
    if (l.quantized() && stride[i] == 2 && w[i + 2] >= 9 && (w[0] <= 4 || fixed_bytes(*l.encoding(0)) > 1))
      return true;
  return false;
}

// Taps of floats along a line that reach further than a quarter of it: the library cuts a line into pieces,
// and loses what pieces have in common beyond that, unless the padding is an op of its own.  [htp.conv.7]
bool loses_ends(const Lowering& l, const Shape& x, const Shape& w) {
  const Attrs& a = l.attrs();
  const size_t last = w.size() - 3;  // of the spatial axes
  if (l.quantized() || a.flag("transposed") || x.size() > 4) return false;
  if (w[1] == 1 && a.integer("groups") > 2) return false;  // one filter for each channel
  if (x.size() == 4 && x[2] != 1) return false;
  const int64_t padding = a.ints("padding")[last] + a.ints("padding_end")[last];
  return padding > 0 && a.ints("stride")[last] == 1 &&
         (w.back() - 1) * a.ints("dilation")[last] * 4 > x.back();
}

// Spread filters of floats with many inputs: the library computes parts of the inputs by themselves, and adds
// the bias to each of them.  [htp.conv.8]
bool adds_bias_again(const Lowering& l, const Shape& w) {
  constexpr int64_t kInputs = 512, kBytes = 256 << 10;
  int64_t spread = 2 * w[1];
  bool dilated = false;
  const Shape dilation = l.attrs().ints("dilation");
  for (size_t i = 0; i < dilation.size(); ++i) {
    spread *= (w[i + 2] - 1) * dilation[i] + 1;
    dilated = dilated || dilation[i] > 1;
  }
  return !l.quantized() && dilated && w[1] >= kInputs && spread >= kBytes;
}

// The grid of a hardswish that alone reads the result. The device computes both at once, and halves what is
// positive in channels whose factor, of both operands' steps over those of the hardswish, is a power of two.
// [htp.hardswish.1]
const Encoding* grid_of_hardswish(const Lowering& l) {
  const Encoding* x = l.encoding(0);
  const auto& users = l.graph().value(l.node().output()).users;
  if (!l.quantized() || !x || users.size() != 1) return nullptr;
  const Node& user = l.graph().node(users[0]);
  const auto& e = l.graph().value(user.output()).encoding;
  return user.op == Op::hardswish && e ? &*e : nullptr;
}

}  // namespace

void convolution(Lowering& l) {
  const Attrs& a = l.attrs();
  if (a.text("activation") != "none" || l.has(3) || l.has(4))
    return l.refuse("what is fused into it belongs after it");
  const Shape x_shape = l.shape(0), w_shape = l.shape(1);
  const size_t n = x_shape.size() - 2;
  const bool line = n == 1, transposed = a.flag("transposed");
  const auto groups = static_cast<uint32_t>(a.integer("groups"));
  const auto channels = static_cast<uint32_t>(x_shape[1]);
  // Of a filter in blocks only the first tap gets its scales; the rest changes from run to run.
  if (const Encoding* e = l.encoding(1);
      l.quantized() && e && e->block > 0 && numel(w_shape) != w_shape[0] * w_shape[1])
    return l.refuse("a filter of several taps has its weights in blocks [htp.conv.3]");

  // [O, C / groups, ...] -> [..., C / groups, O]; transposed [C, O / groups, ...] -> [..., C, O / groups]
  Shape order, shape = w_shape;
  if (line) shape.insert(shape.begin() + 2, 1);
  for (size_t i = 2; i < shape.size(); ++i) order.push_back(static_cast<int64_t>(i));
  order.push_back(transposed ? 0 : 1);
  order.push_back(transposed ? 1 : 0);
  const bool single = w_shape[1] == 1 && groups == channels;
  // One filter for each channel has an op of its own. Up to two groups it is slower than the other, and with
  // several filters for a channel the library accepts it and does not prepare it, or gives anything.
  // [htp.conv.5]
  const bool several = w_shape[0] > groups;
  const bool depthwise =
      !transposed && n < 3 && single && groups > 2 && !several && !is_long_step(l, w_shape);
  const bool grown = depthwise && has_wrong_border(l);
  TensorRef w;
  if (l.constant(1)) {
    w = l.weight(1, order, shape, grown ? Shape{0, 0, 1, 1} : Shape{});
    if (const Encoding* e = grid_of_hardswish(l)) {
      const double by = double{l.encoding(0)->scales[0]} / double{e->scales[0]};
      if (e->quant_max - e->quant_min > 255)
        l.keep_from_powers_of_two(w, by, 0x1p-19, 0);
      else  // it has 13 bits of the factor then, and smaller ones are shifted
        l.keep_from_powers_of_two(w, by, 0x1p-12, 0x1p-5);
    }
  } else {
    w = l.in_form(1, Form::plain);
    if (line) w = l.reshape(w, {shape.begin(), shape.end()});
    w = l.transpose(w, order);
  }

  std::vector<uint32_t> pads;
  const auto before = numbers(a, "padding", line, 0), after = numbers(a, "padding_end", line, 0);
  // Output padding is what is cut off less at the end. As a parameter it is right in all but one place.
  auto extra = transposed ? numbers(a, "output_padding", line, 0) : std::vector<uint32_t>{};
  for (size_t i = 0; i < before.size(); ++i) {
    pads.push_back(before[i]);
    pads.push_back(transposed ? before[i] : after[i] + (grown ? 1 : 0));
    if (!transposed || extra[i] == 0 || !single || groups == 1) continue;
    if (extra[i] > before[i])
      return l.refuse(cat("the library computes an output padding of ", extra[i],
                          " wrongly with a padding of ", before[i],
                          " and a filter for each channel  [htp.conv.1]"));
    pads.back() -= extra[i];
    extra[i] = 0;
  }
  if (transposed && groups > 1 && l.quantized() && l.encoding(1) && l.encoding(1)->axis >= 0)
    return l.refuse("the library computes groups that share scales wrongly  [htp.conv.4]");
  if (transposed && n == 3 && groups > 1)
    return l.refuse("the library computes groups of a transposed volume wrongly  [htp.conv.2]");
  TensorRef x = line ? l.reshape(l.in(0), as_image(l.extents(x_shape))) : l.in(0);
  if (loses_ends(l, x_shape, w_shape))
    x = padded_apart(l, x, 2, std::exchange(pads[2], 0), std::exchange(pads[3], 0), 0);
  const auto axes = static_cast<uint32_t>(before.size());
  std::vector<Param> params = {words("stride", numbers(a, "stride", line, 1)),
                               words("pad_amount", {axes, 2}, std::move(pads))};
  const char* type = nullptr;
  if (transposed) {
    for (const int64_t d : a.ints("dilation"))
      if (d != 1) return l.refuse("the device has no dilation in a transposed convolution");
    type = n == 3 ? "TransposeConv3d" : "TransposeConv2d";
    params.push_back(words("output_padding", std::move(extra)));
  } else {
    type = n == 3 ? "Conv3d" : "Conv2d";
    params.push_back(words("dilation", numbers(a, "dilation", line, 1)));
  }
  if (depthwise)
    type = "DepthWiseConv2d";
  else
    params.push_back({"group", groups});

  const TensorRef y = l.out(), part = line ? l.temp(as_image(l.extents(l.out_shape())), y) : y;
  if (const TensorRef bias = l.bias(2); l.has(2) && adds_bias_again(l, w_shape)) {
    const TensorRef sums = l.temp(l.spec(part).dims, part);
    l.add(type, {x, w}, {sums}, std::move(params));
    l.add("ElementWiseAdd", {sums, bias}, {part});
  } else {
    l.add(type, {x, w, bias}, {part}, std::move(params));
  }
  if (line) l.add("Reshape", {part}, {y});
}

}  // namespace sixfold::lower
