// Images as kernels. What those do not have is said by tables of taps (resizing) or by gathers (three axes).
#include "sixfold/ops/legalize.h"

#include <array>
#include <cmath>

#include "sixfold/ops/image/resize.h"

namespace sixfold::legalize {
namespace {

// The extent that torch computes from a scale is the one that the model has; of symbolic ones the exporter
// says so.
bool scales_agree(const Dims& in, const Dims& out, const std::vector<double>& scales) {
  for (size_t i = 0; i < scales.size(); ++i)
    if (in[i + 2].is_static() && out[i + 2].is_static() &&
        static_cast<int64_t>(static_cast<double>(in[i + 2].value()) * scales[i]) != out[i + 2].value())
      return false;
  return true;
}

// Along one axis: sum over taps of weight * row.
ValueId resize_axis(Legal& legal, ValueId x, size_t axis, const cpu::image::Axis& taps, bool copy) {
  const DType dtype = legal.dtype(x);
  const size_t rank = legal.dims(x).size();
  const auto n = static_cast<size_t>(taps.out);
  ValueId sum = kNoValue;
  for (int64_t t = 0; t < taps.taps; ++t) {
    const size_t at = static_cast<size_t>(t) * n;
    const std::vector<int64_t> index(taps.index.begin() + static_cast<int64_t>(at),
                                     taps.index.begin() + static_cast<int64_t>(at + n));
    ValueId row = legal.index_select(x, static_cast<int64_t>(axis), index);
    if (!copy) {
      Shape shape(rank - axis, 1);
      shape[0] = taps.out;
      row = legal.add(Op::mul, {row, legal.constant(dtype, shape, {taps.weight.data() + at, n})});
    }
    sum = sum.valid() ? legal.add(Op::add, {sum, row}) : row;
  }
  return sum;
}

// Coordinates and weights of grid_sampler for three axes, as terms of shape [N, 1, points].
struct GridAxis {
  struct Tap {
    Term position, inside, weight;  // i64 and inside the image; bool; real
  };
  std::vector<Tap> taps;
};

Term reflect(const Term& x, double twice_low, double twice_high) {
  if (twice_low == twice_high) return x * 0.0;
  const double low = twice_low / 2, span = (twice_high - twice_low) / 2;
  const Term distance = (x - low).apply(Op::abs);
  const Term extra = distance.apply(Op::fmod, x.number(span));
  const Term flips = (distance / span).apply(Op::floor).apply(Op::fmod, x.number(2));
  return where(flips.apply(Op::eq, x.number(0)), extra + low, span - extra + low);
}

GridAxis grid_axis(const Legal& legal, const Term& coordinate, int64_t extent) {
  const Attrs& a = legal.attrs();
  const bool align = a.flag("align_corners");
  const double size = static_cast<double>(extent);
  Term x = align ? (coordinate + 1) / 2 * (size - 1) : ((coordinate + 1) * size - 1) / 2;
  const std::string& padding = a.text("padding_mode");
  if (padding == "reflection") x = align ? reflect(x, 0, 2 * (size - 1)) : reflect(x, -1, 2 * size - 1);
  if (padding != "zeros") {
    x = clamped(x, 0.0, size - 1);
    x = where(x.apply(Op::isnan), x.number(size - 1), x);
  }
  GridAxis out;
  const auto tap = [&](const Term& at, const Term& weight) {
    const Term inside =
        at.apply(Op::ge, at.number(0)).apply(Op::logical_and, at.apply(Op::lt, at.number(size)));
    const Term safe = where(inside, at, at.number(0));
    out.taps.push_back({safe.to(DType::i64), inside, weight});
  };
  if (a.text("mode") == "nearest") {
    tap(x.apply(Op::round), x.number(1));
    return out;
  }
  const Term first = x.apply(Op::floor);
  tap(first, first + 1 - x);
  tap(first + 1, x - first);
  return out;
}

Match grid_sampler3(Legal& legal) {
  const Shape in = legal.shape(legal.in(0)), grid = legal.shape(legal.in(1));
  const int64_t points = grid[1] * grid[2] * grid[3];
  const Term flat(legal, legal.reshape(legal.in(0), to_dims({in[0], in[1], in[2] * in[3] * in[4]})));
  std::array<GridAxis, 3> axes;
  for (int64_t i = 0; i < 3; ++i) {  // the last coordinate is the slowest axis
    const Term c(legal, legal.reshape(legal.slice(legal.in(1), 4, i, i + 1), to_dims({in[0], 1, points})));
    axes[static_cast<size_t>(i)] = grid_axis(legal, c, in[static_cast<size_t>(4 - i)]);
  }
  const Term zero = flat.number(0);
  std::vector<Term> terms;
  for (const auto& z : axes[2].taps)
    for (const auto& y : axes[1].taps)
      for (const auto& x : axes[0].taps) {
        const Term row = z.position * static_cast<double>(in[3]) + y.position;
        const Term at = row * static_cast<double>(in[4]) + x.position;
        const ValueId index = legal.expand(at, to_dims({in[0], in[1], points}));
        const Term value(legal, legal.add(Op::gather, {flat, index}, {{"dim", Dim(2)}}));
        const Term inside = z.inside.apply(Op::logical_and, y.inside).apply(Op::logical_and, x.inside);
        const Term weight = axes[0].taps.size() == 1 ? value : value * (z.weight * y.weight * x.weight);
        const Term part = where(inside, weight, zero);
        terms.push_back(terms.empty() ? part : terms.back() + part);
      }
  return legal.result(terms.back().reshape(legal.out_type().dims));
}

struct Patches {
  Shape kernel, dilation, padding, stride;
  int64_t rows = 0, columns = 0;  // of windows

  Patches(const Attrs& a, int64_t height, int64_t width)
      : kernel(a.ints("kernel")),
        dilation(a.ints("dilation")),
        padding(a.ints("padding")),
        stride(a.ints("stride")) {
    rows = (height + 2 * padding[0] - dilation[0] * (kernel[0] - 1) - 1) / stride[0] + 1;
    columns = (width + 2 * padding[1] - dilation[1] * (kernel[1] - 1) - 1) / stride[1] + 1;
  }
};

}  // namespace

Match upsample(Legal& legal) {
  const ValueId x = legal.in();
  const Attrs& a = legal.attrs();
  const DType dtype = legal.dtype(x);
  const std::string& mode = a.text("mode");
  const bool copy = mode == "nearest" || mode == "nearest-exact";
  if (!copy && dtype != DType::f32 && dtype != DType::f64) return legal.computed_in(DType::f32);
  const std::vector<double> scales = a.reals("scales");
  bool any_scale = false, all_scales = true;
  for (const double scale : scales) (scale > 0 ? any_scale : all_scales) = scale > 0;
  const bool kernel_takes_scales =
      !any_scale || (all_scales && scales_agree(legal.dims(x), legal.out_type().dims, scales));
  if (legal.rank(x) == 4 && (mode == "nearest" || mode == "linear") && is_float(dtype) &&
      !a.flag("antialias") && kernel_takes_scales) {
    std::vector<LegalArg> args = {
        {"input", x},
        {"output_size", any_scale ? Attr() : Attr(a.dims("size"))},
        {"scale_factors", any_scale ? Attr(scales) : Attr()},
    };
    if (mode == "linear") args.emplace_back("align_corners", Attr(a.flag("align_corners")));
    return legal.call(mode == "linear" ? "aten.upsample_bilinear2d.vec" : "aten.upsample_nearest2d.vec",
                      std::move(args));
  }
  const Shape in = legal.shape(x), out = legal.shape(legal.node().output());
  ValueId y = x;
  for (size_t i = in.size(); i-- > 2;) {
    if (in[i] == out[i] && copy) continue;
    y = resize_axis(legal, y, i,
                    cpu::image::resize_axis({in[i], out[i], scales[i - 2], !copy && a.flag("align_corners"),
                                             a.flag("antialias"), mode},
                                            dtype),
                    copy);
  }
  return legal.result(y);
}

Match grid_sampler(Legal& legal) {
  if (is_half(legal.dtype(legal.in()))) return legal.computed_in(DType::f32);
  const Attrs& a = legal.attrs();
  if (legal.rank(legal.in()) == 5) return grid_sampler3(legal);
  const auto number = [](const std::string& text, std::initializer_list<const char*> names) {
    int64_t i = 0;
    for (const char* name : names) {
      if (text == name) break;
      ++i;
    }
    return Attr(Dim(i));
  };
  return legal.call("aten.grid_sampler_2d.default",
                    {{"input", legal.in(0)},
                     {"grid", legal.in(1)},
                     {"interpolation_mode", number(a.text("mode"), {"bilinear", "nearest", "bicubic"})},
                     {"padding_mode", number(a.text("padding_mode"), {"zeros", "border", "reflection"})},
                     {"align_corners", Attr(a.flag("align_corners"))}});
}

Match pixel_shuffle(Legal& legal) {
  const Attr factor = Dim(legal.attrs().integer("factor"));
  if (legal.op() == Op::pixel_shuffle)
    return legal.call("aten.pixel_shuffle.default", {{"self", legal.in()}, {"upscale_factor", factor}});
  return legal.call("aten.pixel_unshuffle.default", {{"self", legal.in()}, {"downscale_factor", factor}});
}

// A strided slice of the padded image for each place of the window.
Match im2col(Legal& legal) {
  const Shape in = legal.shape(legal.in());
  const Patches p(legal.attrs(), in[2], in[3]);
  const Dims pad = to_dims({0, 0, p.padding[0], p.padding[1]});
  const ValueId padded = legal.add(Op::pad, {legal.in()},
                                   {{"before", pad}, {"after", pad}, {"mode", "constant"}, {"value", 0.0}});
  std::vector<ValueId> places;
  for (int64_t i = 0; i < p.kernel[0]; ++i)
    for (int64_t j = 0; j < p.kernel[1]; ++j) {
      const int64_t top = i * p.dilation[0], left = j * p.dilation[1];
      ValueId s = legal.slice(padded, 2, top, top + (p.rows - 1) * p.stride[0] + 1, p.stride[0]);
      s = legal.slice(s, 3, left, left + (p.columns - 1) * p.stride[1] + 1, p.stride[1]);
      places.push_back(legal.reshape(s, to_dims({in[0], in[1], 1, p.rows * p.columns})));
    }
  return legal.result(legal.reshape(legal.concat(std::move(places), 2), legal.out_type().dims));
}

// Every element of a column goes to a known place of the padded image, and elements that meet are added.
Match col2im(Legal& legal) {
  const ValueId x = legal.in();
  if (is_half(legal.dtype(x))) return legal.computed_in(DType::f32);
  const Shape in = legal.shape(x), size = legal.attrs().ints("size");
  const Patches p(legal.attrs(), size[0], size[1]);
  const int64_t window = p.kernel[0] * p.kernel[1], channels = in[1] / window;
  const int64_t height = size[0] + 2 * p.padding[0], width = size[1] + 2 * p.padding[1];
  std::vector<int64_t> places;
  for (int64_t i = 0; i < p.kernel[0]; ++i)
    for (int64_t j = 0; j < p.kernel[1]; ++j)
      for (int64_t r = 0; r < p.rows; ++r)
        for (int64_t c = 0; c < p.columns; ++c)
          places.push_back((r * p.stride[0] + i * p.dilation[0]) * width + c * p.stride[1] +
                           j * p.dilation[1]);
  const int64_t count = window * p.rows * p.columns;
  const Dims flat = to_dims({in[0], channels, count});
  const ValueId index = legal.expand(legal.ints({1, 1, count}, places), flat);
  const ValueId zeros = legal.add(
      Op::full, {},
      {{"shape", to_dims({in[0], channels, height * width})}, {"value", 0.0}, {"dtype", legal.dtype(x)}});
  ValueId y = legal.add(Op::scatter, {zeros, index, legal.reshape(x, flat)},
                        {{"dim", Dim(2)}, {"reduce", "add"}, {"include_self", true}});
  y = legal.reshape(y, to_dims({in[0], channels, height, width}));
  y = legal.slice(y, 2, p.padding[0], p.padding[0] + size[0]);
  return legal.result(legal.slice(y, 3, p.padding[1], p.padding[1] + size[1]));
}

}  // namespace sixfold::legalize
