// Pools as kernels, which take two spatial axes. One axis is two with an extent of 1; the first of three is
// pooled after the others.
#include "sixfold/ops/legalize.h"

#include <algorithm>

namespace sixfold::legalize {
namespace {

using Taps = std::vector<std::vector<int64_t>>;  // [tap][output]: the position along an axis

Dims flat_image(const Dims& d) { return {d[0], d[1], Dim(1), d[2]}; }
Dims with_front(const char* name, const Attrs& a, int64_t front) {
  Dims d = a.dims(name);
  d.insert(d.begin(), Dim(front));
  return d;
}

// [N, C, L] as [N, C, 1, L]
Match one_axis(Legal& legal) {
  Attrs attrs = legal.attrs();
  for (const auto& [name, neutral] : std::initializer_list<std::pair<const char*, int64_t>>{
           {"kernel", 1}, {"stride", 1}, {"padding", 0}, {"dilation", 1}, {"size", 1}})
    if (attrs.has(name)) attrs.set(name, with_front(name, legal.attrs(), neutral));
  std::vector<ValueId> out =
      legal.patch.add_all(legal.op(), {legal.reshape(legal.in(), flat_image(legal.dims(legal.in())))}, attrs);
  out.resize(legal.node().outputs.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = legal.reshape(out[i], legal.out_type(i).dims);
  return legal.results(out);
}

// Window positions inside the input; places outside repeat the first or last one inside.
Taps strided(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
  Taps taps(static_cast<size_t>(kernel), std::vector<int64_t>(static_cast<size_t>(out)));
  for (int64_t o = 0; o < out; ++o) {
    const int64_t start = o * stride - padding;
    const int64_t skipped = start < 0 ? (-start + dilation - 1) / dilation : 0;
    const int64_t first = start + skipped * dilation;
    const int64_t last = first + std::max<int64_t>(in - 1 - first, 0) / dilation * dilation;
    for (int64_t t = 0; t < kernel; ++t)
      taps[static_cast<size_t>(t)][static_cast<size_t>(o)] =
          std::min(std::clamp(start + t * dilation, first, std::max(first, last)), in - 1);
  }
  return taps;
}

struct Part {
  int64_t begin, end;
};
Part adaptive_window(int64_t in, int64_t out, int64_t o) {
  return {o * in / out, ((o + 1) * in + out - 1) / out};
}
Taps adaptive(int64_t in, int64_t out) {
  int64_t most = 1;
  for (int64_t o = 0; o < out; ++o) {
    const Part w = adaptive_window(in, out, o);
    most = std::max(most, w.end - w.begin);
  }
  Taps taps(static_cast<size_t>(most), std::vector<int64_t>(static_cast<size_t>(out)));
  for (int64_t o = 0; o < out; ++o) {
    const Part w = adaptive_window(in, out, o);
    for (int64_t t = 0; t < most; ++t)
      taps[static_cast<size_t>(t)][static_cast<size_t>(o)] = std::min(w.begin + t, w.end - 1);
  }
  return taps;
}

// The largest along an axis, the first of equals, a NaN before all; indices follow if there are any.
struct Peak {
  ValueId values, indices;
};
Peak largest(Legal& legal, const Peak& from, int64_t axis, const Taps& taps) {
  Peak best;
  for (const auto& tap : taps) {
    const Peak next{legal.index_select(from.values, axis, tap),
                    from.indices.valid() ? legal.index_select(from.indices, axis, tap) : kNoValue};
    if (!best.values.valid()) {
      best = next;
      continue;
    }
    const Term a(legal, best.values), b(legal, next.values);
    if (!from.indices.valid()) {
      best.values = a.apply(Op::maximum, b);
      continue;
    }
    Term take = b.apply(Op::gt, a);
    if (is_float(a.dtype())) take = take.apply(Op::logical_or, b.apply(Op::isnan));
    best = {where(take, b, a), where(take, Term(legal, next.indices), Term(legal, best.indices))};
  }
  return best;
}

Attrs planes_only(const Attrs& attrs) {
  Attrs out = attrs;
  for (const char* name : {"kernel", "stride", "padding", "dilation", "size"})
    if (attrs.has(name)) {
      Dims d = attrs.dims(name);
      d.erase(d.begin());
      out.set(name, std::move(d));
    }
  return out;
}

// [N, C, D, H, W] as [N * C, D, H, W]: the depth is a channel of the planes.
ValueId depth_as_channel(Legal& legal, ValueId x) {
  const Dims d = legal.dims(x);
  return legal.reshape(x, {d[0] * d[1], d[2], d[3], d[4]});
}

}  // namespace

Match max_pool(Legal& legal) {
  const ValueId x = legal.in();
  const size_t n = legal.dims(x).size() - 2;
  if (n == 1) return one_axis(legal);
  const Attrs& a = legal.attrs();
  if (n == 2)
    return legal.call("aten.max_pool2d_with_indices.default", {{"self", x},
                                                               {"kernel_size", a.dims("kernel")},
                                                               {"stride", a.dims("stride")},
                                                               {"padding", a.dims("padding")},
                                                               {"dilation", a.dims("dilation")},
                                                               {"ceil_mode", Attr(a.flag("ceil_mode"))}});
  const Shape in = legal.shape(x);
  const std::vector<ValueId> planes =
      legal.patch.add_all(Op::max_pool, {depth_as_channel(legal, x)}, planes_only(a));
  Peak peak{planes[0], kNoValue};
  if (legal.is_used(1)) {
    std::vector<int64_t> base;
    for (int64_t d = 0; d < in[2]; ++d) base.push_back(d * in[3] * in[4]);
    peak.indices = legal.add(Op::add, {planes[1], legal.ints({in[2], 1, 1}, base)});
  }
  peak = largest(legal, peak, 1,
                 strided(in[2], legal.out_type().dims[2].value_or(1), a.ints("kernel")[0],
                         a.ints("stride")[0], a.ints("padding")[0], a.ints("dilation")[0]));
  return legal.results(
      {legal.reshape(peak.values, legal.out_type().dims),
       peak.indices.valid() ? legal.reshape(peak.indices, legal.out_type().dims) : kNoValue});
}

Match avg_pool(Legal& legal) {
  const ValueId x = legal.in();
  const DType dtype = legal.dtype(x);
  if (is_half(dtype)) return legal.computed_in(DType::f32);
  if (!is_float(dtype) && dtype != DType::i64) return legal.computed_in(DType::i64);
  const size_t n = legal.dims(x).size() - 2;
  if (n == 1) return one_axis(legal);
  const Attrs& a = legal.attrs();
  const int64_t divisor = a.integer("divisor");
  if (n == 2)
    return legal.call("aten.avg_pool2d.default",
                      {{"self", x},
                       {"kernel_size", a.dims("kernel")},
                       {"stride", a.dims("stride")},
                       {"padding", a.dims("padding")},
                       {"ceil_mode", Attr(a.flag("ceil_mode"))},
                       {"count_include_pad", Attr(a.flag("count_include_pad"))},
                       {"divisor_override", divisor ? Attr(Dim(divisor)) : Attr()}});
  if (!is_float(dtype)) return legal.unsupported("an average of integers over three axes");
  // Sums of planes, sums of those over the depth, then one division.
  const Shape in = legal.shape(x), out = static_shape(legal.out_type().dims);
  const Shape kernel = a.ints("kernel"), stride = a.ints("stride"), padding = a.ints("padding");
  Attrs sums = planes_only(a);
  sums.set("divisor", Dim(1));
  const ValueId planes = legal.add(Op::avg_pool, {depth_as_channel(legal, x)}, sums);
  // A plane of zeros stands for what lies outside.
  const ValueId padded = legal.add(Op::pad, {planes},
                                   {{"before", to_dims(Shape(4, 0))},
                                    {"after", to_dims({0, 1, 0, 0})},
                                    {"mode", "constant"},
                                    {"value", 0.0}});
  ValueId sum = kNoValue;
  for (int64_t t = 0; t < kernel[0]; ++t) {
    std::vector<int64_t> at;
    for (int64_t o = 0; o < out[2]; ++o) {
      const int64_t d = o * stride[0] - padding[0] + t;
      at.push_back(d >= 0 && d < in[2] ? d : in[2]);
    }
    const ValueId term = legal.index_select(padded, 1, at);
    sum = sum.valid() ? legal.add(Op::add, {sum, term}) : term;
  }
  std::vector<std::vector<double>> sizes(3);
  for (size_t i = 0; i < 3; ++i)
    for (int64_t o = 0; o < out[i + 2]; ++o) {
      const int64_t begin = o * stride[i] - padding[i],
                    end = std::min(begin + kernel[i], in[i + 2] + padding[i]);
      const bool pads = a.flag("count_include_pad");
      sizes[i].push_back(
          static_cast<double>(pads ? end - begin : std::min(end, in[i + 2]) - std::max<int64_t>(begin, 0)));
    }
  std::vector<double> divisors;
  for (const double d : sizes[0])
    for (const double h : sizes[1])
      for (const double w : sizes[2]) divisors.push_back(divisor ? static_cast<double>(divisor) : d * h * w);
  const Term total(legal, sum);
  const Term mean = total / Term(legal, legal.constant(dtype, {out[2], out[3], out[4]}, divisors));
  return legal.result(mean.reshape(legal.out_type().dims));
}

Match adaptive_avg_pool(Legal& legal) {
  const ValueId x = legal.in();
  if (is_half(legal.dtype(x))) return legal.computed_in(DType::f32);
  const size_t n = legal.dims(x).size() - 2;
  if (n == 1) return one_axis(legal);
  if (n == 2)
    return legal.call("aten._adaptive_avg_pool2d.default",
                      {{"self", x}, {"output_size", legal.attrs().dims("size")}});
  const int64_t in = legal.shape(x)[2], out = legal.attrs().ints("size")[0];
  const Term planes(
      legal, legal.add(Op::adaptive_avg_pool, {depth_as_channel(legal, x)}, planes_only(legal.attrs())));
  std::vector<ValueId> rows;
  for (int64_t o = 0; o < out; ++o) {
    const Part w = adaptive_window(in, out, o);
    rows.push_back(Term(legal, legal.slice(planes, 1, w.begin, w.end)).reduce(Op::mean, {1}));
  }
  return legal.result(legal.reshape(legal.concat(std::move(rows), 1), legal.out_type().dims));
}

Match adaptive_max_pool(Legal& legal) {
  const ValueId x = legal.in();
  const Shape in = legal.shape(x), size = legal.attrs().ints("size");
  const size_t n = size.size();
  Peak peak{x, kNoValue};
  if (legal.is_used(1)) {
    Shape spatial(in.begin() + 2, in.end());
    const ValueId count = legal.add(
        Op::arange, {},
        {{"start", Dim(0)}, {"step", Dim(1)}, {"length", Dim(numel(spatial))}, {"dtype", DType::i64}});
    peak.indices = legal.expand(legal.reshape(count, to_dims(spatial)), to_dims(in));
  }
  for (size_t i = n; i-- > 0;)  // the last axis first: of equals, the first in row-major order stays
    peak = largest(legal, peak, static_cast<int64_t>(i) + 2, adaptive(in[i + 2], size[i]));
  return legal.results({peak.values, peak.indices});
}

}  // namespace sixfold::legalize
