// Convolutions as kernels, which take one or two spatial axes. Three are a sum over the taps of the first
// one.
#include "sixfold/ops/legalize.h"

#include <algorithm>

namespace sixfold::legalize {
namespace {

struct Window {
  Shape stride, padding, padding_end, dilation, output_padding;
  int64_t groups = 1;
  bool transposed = false;

  explicit Window(const Attrs& a)
      : stride(a.ints("stride")),
        padding(a.ints("padding")),
        padding_end(a.ints("padding_end")),
        dilation(a.ints("dilation")),
        output_padding(a.ints("output_padding")),
        groups(a.integer("groups")),
        transposed(a.flag("transposed")) {}

  Attrs attrs() const {
    return {{"stride", to_dims(stride)},
            {"padding", to_dims(padding)},
            {"padding_end", to_dims(padding_end)},
            {"dilation", to_dims(dilation)},
            {"groups", Dim(groups)},
            {"transposed", transposed},
            {"output_padding", to_dims(output_padding)},
            {"activation", "none"}};
  }
  // Without its first axis.
  Window inner() const {
    Window w = *this;
    for (Shape* s : {&w.stride, &w.padding, &w.padding_end, &w.dilation, &w.output_padding})
      s->erase(s->begin());
    return w;
  }
};

ValueId pad_axis(Legal& legal, ValueId x, size_t axis, int64_t before, int64_t after) {
  if (before == 0 && after == 0) return x;
  Shape b(legal.dims(x).size(), 0), a = b;
  b[axis] = before;
  a[axis] = after;
  return legal.add(Op::pad, {x},
                   {{"before", to_dims(b)}, {"after", to_dims(a)}, {"mode", "constant"}, {"value", 0.0}});
}

// Padding that differs at both ends: zeros around the input, or a part cut out of a transposed output.
Match uneven(Legal& legal, Window w) {
  const size_t n = w.stride.size();
  ValueId x = legal.in(0);
  if (!w.transposed) {
    for (size_t i = 0; i < n; ++i) x = pad_axis(legal, x, i + 2, w.padding[i], w.padding_end[i]);
    w.padding = w.padding_end = Shape(n, 0);
    return legal.result(legal.add(Op::convolution, {x, legal.in(1), legal.in(2)}, w.attrs()));
  }
  const Window given = w;
  w.padding = w.padding_end = Shape(n, 0);
  for (size_t i = 0; i < n; ++i)
    w.output_padding[i] = std::max<int64_t>(given.output_padding[i] - given.padding_end[i], 0);
  ValueId y = legal.add(Op::convolution, {x, legal.in(1), legal.in(2)}, w.attrs());
  for (size_t i = 0; i < n; ++i)
    y = legal.slice(y, static_cast<int64_t>(i) + 2, given.padding[i],
                    Dim(given.padding[i]) + legal.out_type().dims[i + 2]);
  return legal.result(y);
}

// [N, C, D, H, W] <-> [N, D, C, H, W]
ValueId swap_depth(Legal& legal, ValueId x) { return legal.permute(x, {0, 2, 1, 3, 4}); }

ValueId merge(Legal& legal, ValueId x) {  // the first two axes
  const Dims d = legal.dims(x);
  return legal.reshape(x, {d[0] * d[1], d[2], d[3], d[4]});
}
ValueId split(Legal& legal, ValueId x, const Dim& batch, const Dim& depth) {
  const Dims d = legal.dims(x);
  return legal.reshape(x, {batch, depth, d[1], d[2], d[3]});
}

Match spatial3(Legal& legal, const Window& w) {
  const Shape xs = legal.shape(legal.in(0)), ws = legal.shape(legal.in(1));
  const int64_t taps = ws[2], stride = w.stride[0], dilation = w.dilation[0];
  const int64_t depth_out = legal.out_type().dims[2].value_or(1);
  const auto weight = [&](int64_t t) {
    return legal.reshape(legal.slice(legal.in(1), 2, t, t + 1), to_dims({ws[0], ws[1], ws[3], ws[4]}));
  };
  const auto accumulate = [&](ValueId sum, ValueId term) {
    return sum.valid() ? legal.add(Op::add, {sum, term}) : term;
  };
  ValueId x = swap_depth(legal, legal.in(0)), y = kNoValue;
  if (!w.transposed) {
    x = pad_axis(legal, x, 1, w.padding[0], w.padding_end[0]);
    for (int64_t t = 0; t < taps; ++t) {
      const int64_t first = t * dilation;
      const ValueId rows = legal.slice(x, 1, first, first + (depth_out - 1) * stride + 1, stride);
      y = accumulate(
          y, legal.add(Op::convolution, {merge(legal, rows), weight(t), t == 0 ? legal.in(2) : kNoValue},
                       w.inner().attrs()));
    }
    return legal.result(swap_depth(legal, split(legal, y, xs[0], depth_out)));
  }
  // Row d of tap t goes to d * stride + t * dilation: rows are spread by zeros, shifted and added, then cut.
  const int64_t spread = (xs[2] - 1) * stride + 1;
  const int64_t length = std::max(spread + (taps - 1) * dilation, w.padding[0] + depth_out);
  const ValueId merged = merge(legal, x);
  for (int64_t t = 0; t < taps; ++t) {
    ValueId part = legal.add(Op::convolution, {merged, weight(t), kNoValue}, w.inner().attrs());
    const Dims d = legal.dims(part);
    if (stride > 1) {
      const Dim plane = d[1] * d[2] * d[3];
      part = legal.reshape(part, {Dim(xs[0]), Dim(xs[2]), Dim(1), plane});
      part = pad_axis(legal, part, 2, 0, stride - 1);
      part = legal.slice(legal.reshape(part, {Dim(xs[0]), Dim(xs[2] * stride), plane}), 1, 0, spread);
    }
    part = legal.reshape(part, {Dim(xs[0]), Dim(spread), d[1], d[2], d[3]});
    y = accumulate(y, pad_axis(legal, part, 1, t * dilation, length - spread - t * dilation));
  }
  y = swap_depth(legal, legal.slice(y, 1, w.padding[0], w.padding[0] + depth_out));
  if (legal.in(2).valid())
    y = legal.add(Op::add,
                  {y, legal.reshape(legal.in(2), {legal.out_type().dims[1], Dim(1), Dim(1), Dim(1)})});
  return legal.result(y);
}

}  // namespace

Match convolution(Legal& legal) {
  const Window w(legal.attrs());
  for (size_t i = 3; i < 6; ++i)
    if (legal.in(i).valid())
      return fail(Code::Internal, "a convolution with fused operands is not legalized");
  if (legal.attrs().text("activation") != "none")
    return fail(Code::Internal, "a convolution with a fused activation is not legalized");
  if (is_half(legal.dtype(legal.in()))) return legal.computed_in(DType::f32);
  if (w.padding != w.padding_end) return uneven(legal, w);
  if (w.stride.size() == 3) return spatial3(legal, w);
  return legal.call("aten.convolution.default", {{"input", legal.in(0)},
                                                 {"weight", legal.in(1)},
                                                 {"bias", legal.in(2)},
                                                 {"stride", to_dims(w.stride)},
                                                 {"padding", to_dims(w.padding)},
                                                 {"dilation", to_dims(w.dilation)},
                                                 {"transposed", Attr(w.transposed)},
                                                 {"output_padding", to_dims(w.output_padding)},
                                                 {"groups", Dim(w.groups)}});
}

}  // namespace sixfold::legalize
