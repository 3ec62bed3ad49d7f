// Pools as those that the NPU has.
#include "sixfold/rewrite/htp.h"

#include <algorithm>

namespace sixfold::htp {
namespace {

struct Part {
  int64_t begin, end;
};
Part adaptive_window(int64_t in, int64_t out, int64_t o) {
  return {o * in / out, ((o + 1) * in + out - 1) / out};
}

// x with places around its planes that are never the only maximum of a window: zeros beside what is not
// negative, otherwise the nearest tap of the same window once more. A number below all others would have to
// lie on x's grid.
ValueId pad_for_max(Htp& h, ValueId x, const Shape& before, const Shape& after, const Shape& dilation) {
  const Node* producer = h.graph.producer(x);
  const Shape in = h.shape(x);
  const bool negative = !producer || producer->op != Op::relu;
  bool repeats = negative;
  for (size_t i = 2; i < in.size(); ++i) repeats = repeats && in[i] >= dilation[i - 2];
  if (!repeats)
    return h.add(Op::pad, {x},
                 {{"before", to_dims(before)},
                  {"after", to_dims(after)},
                  {"mode", "constant"},
                  {"value", negative ? -65504.0 : 0.0}});
  for (size_t i = 2; i < in.size(); ++i) {
    const auto axis = static_cast<int64_t>(i);
    const int64_t n = in[i], d = dilation[i - 2];
    std::vector<ValueId> parts;
    if (const int64_t cut = before[i] % d) parts.push_back(h.slice(x, axis, d - cut, d));
    for (int64_t k = 0; k < before[i] / d; ++k) parts.push_back(h.slice(x, axis, 0, d));
    parts.push_back(x);
    for (int64_t k = 0; k < after[i] / d; ++k) parts.push_back(h.slice(x, axis, n - d, n));
    if (const int64_t cut = after[i] % d) parts.push_back(h.slice(x, axis, n - d, n - d + cut));
    if (parts.size() > 1) x = h.concat(std::move(parts), axis);
  }
  return x;
}

// max_pool(pad(x)) with less than any number of x, which no pool's own padding can say (merge_padding)
Match padded_max(Htp& h) {
  const Node* pad = h.graph.producer(h.in());
  if (!pad || pad->op != Op::pad || pad->attrs.text("mode") != "constant" ||
      pad->attrs.real("value") > -65504.0)
    return no_match("the device has it");
  if (h.is_used(1)) return no_match("its indices count in the padded image");
  const Shape before = pad->attrs.ints("before"), after = pad->attrs.ints("after");
  const Shape kernel = h.attrs().ints("kernel"), padding = h.attrs().ints("padding");
  for (size_t i = 0; i < before.size(); ++i) {
    const bool plane = i >= 2 && before.size() == kernel.size() + 2;
    const int64_t most = plane ? kernel[i - 2] - padding[i - 2] - 1 : 0;
    if (std::min(before[i], after[i]) < 0 || std::max(before[i], after[i]) > most)
      return no_match("a window may see nothing but padding");
  }
  const ValueId x = pad_for_max(h, pad->input(0), before, after, h.attrs().ints("dilation"));
  return h.results({h.add(Op::max_pool, {x}, h.attrs()), kNoValue});
}

// The maximum of slices, tap by tap along each axis: windows with gaps.
Match dilated_max(Htp& h) {
  const Attrs& a = h.attrs();
  const ValueId x = h.in();
  if (h.is_used(1)) return h.unsupported("its indices are used; the device gives values only");
  const Shape in = h.shape(x), out = static_shape(h.out_type().dims);
  const Shape kernel = a.ints("kernel"), stride = a.ints("stride"), padding = a.ints("padding"),
              dilation = a.ints("dilation");
  Shape before(in.size(), 0), after(in.size(), 0);
  for (size_t i = 0; i < kernel.size(); ++i) {
    before[i + 2] = padding[i];
    after[i + 2] = std::max<int64_t>(
        (out[i + 2] - 1) * stride[i] + (kernel[i] - 1) * dilation[i] + 1 - in[i + 2] - padding[i], 0);
  }
  Term y(h, pad_for_max(h, x, before, after, dilation));
  for (size_t i = 0; i < kernel.size(); ++i) {
    const auto axis = static_cast<int64_t>(i) + 2;
    std::optional<Term> best;
    for (int64_t t = 0; t < kernel[i]; ++t) {
      const int64_t start = t * dilation[i], end = start + (out[i + 2] - 1) * stride[i] + 1;
      const Term tap(h, h.slice(y, axis, start, end, stride[i]));
      best = best ? best->apply(Op::maximum, tap) : tap;
    }
    y = *best;
  }
  return h.results({y, kNoValue});
}

}  // namespace

Match max_pool(Htp& h) {
  const Shape dilation = h.attrs().ints("dilation");
  const bool plain = std::all_of(dilation.begin(), dilation.end(), [](int64_t d) { return d == 1; });
  return plain ? padded_max(h) : dilated_max(h);
}

// Where torch does not divide by the window's size, a factor for each position makes up for it. Padding is
// zeros that count.
Match avg_pool(Htp& h) {
  const Attrs& a = h.attrs();
  const ValueId x = h.in();
  const Shape in = h.shape(x), out = static_shape(h.out_type().dims);
  const Shape kernel = a.ints("kernel"), stride = a.ints("stride"), padding = a.ints("padding");
  const int64_t divisor = a.integer("divisor");
  const bool counts = a.flag("count_include_pad");
  const size_t n = kernel.size();
  if (!is_float(h.dtype(x))) return h.unsupported("the device averages floats only");
  // How much of each window torch counts, axis by axis.
  std::vector<std::vector<double>> sizes(n);
  bool whole = true;
  for (size_t i = 0; i < n; ++i)
    for (int64_t o = 0; o < out[i + 2]; ++o) {
      const int64_t begin = o * stride[i] - padding[i],
                    end = std::min(begin + kernel[i], in[i + 2] + padding[i]);
      const int64_t size = counts ? end - begin : std::min(end, in[i + 2]) - std::max<int64_t>(begin, 0);
      whole = whole && size == kernel[i];
      sizes[i].push_back(static_cast<double>(size));
    }
  const double window = static_cast<double>(numel(kernel));
  if (divisor == 0 ? whole : static_cast<double>(divisor) == window) {
    if (divisor == 0 &&
        (counts || std::all_of(padding.begin(), padding.end(), [](int64_t p) { return p == 0; })))
      return no_match("the device has it");
  }
  Attrs attrs = a;
  attrs.set("divisor", Dim(0));
  attrs.set("count_include_pad", true);
  // A ceiled last window reaches beyond the padding: as if there was more of it.
  Shape before(in.size(), 0), after(in.size(), 0);
  for (size_t i = 0; i < n; ++i) {
    before[i + 2] = padding[i];
    after[i + 2] = std::max<int64_t>((out[i + 2] - 1) * stride[i] + kernel[i] - in[i + 2] - padding[i], 0);
  }
  attrs.set("padding", to_dims(Shape(n, 0)));
  attrs.set("ceil_mode", false);
  const ValueId around =
      h.add(Op::pad, {x},
            {{"before", to_dims(before)}, {"after", to_dims(after)}, {"mode", "constant"}, {"value", 0.0}});
  const Term mean(h, h.add(Op::avg_pool, {around}, attrs));
  if (divisor != 0) {
    const double factor = window / static_cast<double>(divisor);
    return h.result(factor == 1 ? mean : mean * factor);
  }
  Shape shape(in.size(), 1);
  for (size_t i = 0; i < n; ++i) shape[i + 2] = out[i + 2];
  std::vector<double> factors;
  for (int64_t i = 0; i < numel(shape); ++i) {
    double size = 1;
    int64_t rest = i;
    for (size_t k = n; k-- > 0; rest /= shape[k + 2])
      size *= sizes[k][static_cast<size_t>(rest % shape[k + 2])];
    factors.push_back(window / size);
  }
  return h.result(mean * Term(h, h.constant(h.dtype(x), shape, factors)));
}

// Windows of one size are a pool. Others: for averages a matrix of weights along each axis, for maxima the
// largest of each slice.
Match adaptive_pool(Htp& h) {
  const ValueId x = h.in();
  const Shape in = h.shape(x), size = h.attrs().ints("size");
  const bool average = h.op() == Op::adaptive_avg_pool;
  if (!average && h.is_used(1)) return h.unsupported("its indices are used; the device gives values only");
  if (!is_float(h.dtype(x))) return h.unsupported("the device pools floats only");
  const size_t n = size.size();
  Shape kernel, single(n, 1), none(n, 0);
  bool even = true;
  for (size_t i = 0; i < n; ++i) {
    even = even && size[i] > 0 && in[i + 2] % size[i] == 0;
    kernel.push_back(size[i] > 0 ? in[i + 2] / size[i] : 0);
  }
  if (numel(size) == 0) return h.unsupported("its result has no elements");
  if (even && average)
    return h.result(h.add(Op::avg_pool, {x},
                          {{"kernel", to_dims(kernel)},
                           {"stride", to_dims(kernel)},
                           {"padding", to_dims(none)},
                           {"ceil_mode", false},
                           {"count_include_pad", true},
                           {"divisor", Dim(0)}}));
  if (even)
    return h.results({h.add(Op::max_pool, {x},
                            {{"kernel", to_dims(kernel)},
                             {"stride", to_dims(kernel)},
                             {"padding", to_dims(none)},
                             {"dilation", to_dims(single)},
                             {"ceil_mode", false}}),
                      kNoValue});
  Term y(h, x);
  for (size_t i = 0; i < n; ++i) {
    const auto axis = static_cast<int64_t>(i) + 2;
    if (in[i + 2] == size[i]) continue;
    std::vector<ValueId> parts;
    for (int64_t o = 0; o < size[i]; ++o) {
      const Part w = adaptive_window(in[i + 2], size[i], o);
      const Term slice(h, h.slice(y, axis, w.begin, w.end));
      parts.push_back(w.end - w.begin == 1 ? slice : slice.reduce(average ? Op::mean : Op::amax, {axis}));
    }
    y = {h, h.concat(std::move(parts), axis)};
  }
  return average ? h.result(y) : h.results({y, kNoValue});
}

}  // namespace sixfold::htp
