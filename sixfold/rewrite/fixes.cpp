#include "sixfold/rewrite/fixes.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "sixfold/rewrite/htp.h"

namespace sixfold {
namespace {

constexpr size_t kManyAxes = 4;      // what all of the device's ops take
constexpr double kExactHalf = 2048;  // halves hold every integer up to it

bool is_elementwise(Op op) {
  if (op == Op::where) return true;
  if (op == Op::prelu || op == Op::gelu) return op == Op::gelu;
  return (op >= Op::abs && op <= Op::to) || (op >= Op::add && op <= Op::logical_xor);
}

// ---- axes

// Neighbouring axes that every operand has in full, or broadcasts, become one.
struct Merged {
  std::vector<Shape> operands;
  Shape result;
};
Merged merge(std::vector<Shape> operands, const Shape& result) {
  const size_t rank = result.size();
  for (Shape& s : operands) s.insert(s.begin(), rank - s.size(), 1);
  Merged out;
  out.operands.resize(operands.size());
  for (size_t a = 0; a < rank; ++a) {
    bool joins = !out.result.empty();
    for (size_t i = 0; i < operands.size() && joins; ++i) {
      const bool full = operands[i][a] == result[a], before = operands[i][a - 1] == result[a - 1];
      joins = full == before || result[a] == 1;
    }
    if (joins) {
      out.result.back() *= result[a];
      for (size_t i = 0; i < operands.size(); ++i) out.operands[i].back() *= operands[i][a];
    } else {
      out.result.push_back(result[a]);
      for (size_t i = 0; i < operands.size(); ++i) out.operands[i].push_back(operands[i][a]);
    }
  }
  return out;
}

// An axis at a time, which has at most two around it: tensors of three axes.
ValueId expand_stepwise(Htp& h, ValueId x, const Shape& out) {
  Shape in = h.shape(x);
  in.insert(in.begin(), out.size() - in.size(), 1);
  for (size_t a = out.size(); a-- > 0;) {
    if (in[a] == out[a]) continue;
    Dims three{Dim(1), Dim(1), Dim(1)};
    for (size_t i = 0; i < out.size(); ++i)
      if (i != a) three[i < a ? 0 : 2] *= Dim(in[i]);
    x = h.reshape(x, three);
    three[1] = Dim(out[a]);
    x = h.expand(x, three);
    in[a] = out[a];
  }
  return x;
}

// f(a, b) = reshape(f(reshape(a), reshape(b)))
Match merge_elementwise(Htp& h) {
  std::vector<Shape> shapes;
  for (size_t i = 0; i < h.node().inputs.size(); ++i) shapes.push_back(h.shape(h.in(i)));
  const Shape result = static_shape(h.out_type().dims);
  const Merged merged = merge(shapes, result);
  std::vector<ValueId> inputs;
  if (merged.result.size() > kManyAxes) {
    // Broadcasts that alternate: they are made first, and all is one axis.
    const Dims flat{Dim(numel(result))};
    for (size_t i = 0; i < shapes.size(); ++i)
      inputs.push_back(shapes[i].empty() ? h.in(i) : h.reshape(expand_stepwise(h, h.in(i), result), flat));
    return h.result(h.reshape(h.add(h.op(), std::move(inputs), h.attrs()), h.out_type().dims));
  }
  for (size_t i = 0; i < shapes.size(); ++i)
    inputs.push_back(shapes[i].empty() ? h.in(i) : h.reshape(h.in(i), to_dims(merged.operands[i])));
  return h.result(h.reshape(h.add(h.op(), std::move(inputs), h.attrs()), h.out_type().dims));
}

// [.., n, ..] -> [before, n, after]; the op looks along axis 1 alone.
Match merge_around(Htp& h) {
  const Shape shape = h.shape(h.in());
  const auto dim = static_cast<size_t>(h.attrs().integer("dim"));
  Dims three{Dim(1), Dim(shape[dim]), Dim(1)};
  for (size_t i = 0; i < shape.size(); ++i)
    if (i != dim) three[i < dim ? 0 : 2] *= Dim(shape[i]);
  Attrs attrs = h.attrs();
  attrs.set("dim", Dim(1));
  std::vector<ValueId> inputs{h.reshape(h.in(), three)};
  if (h.op() == Op::gather) {
    const Shape index = h.shape(h.in(1));
    for (size_t i = 0; i < shape.size(); ++i)
      if (i != dim && index[i] != shape[i]) return no_match("it gathers of a part");
    three[1] = Dim(index[dim]);
    inputs.push_back(h.reshape(h.in(1), three));
  }
  const std::vector<ValueId> made = h.patch.add_all(h.op(), std::move(inputs), std::move(attrs));
  std::vector<ValueId> out;
  for (size_t i = 0; i < h.node().outputs.size(); ++i)
    out.push_back(i < made.size() ? h.reshape(made[i], h.out_type(i).dims) : kNoValue);
  return h.results(out);
}

// Runs of axes that are all reduced, or all kept, become one.
Match merge_reduced(Htp& h) {
  const Shape shape = h.shape(h.in()), dims = h.attrs().ints("dims");
  Dims merged;
  Dims reduced;
  int last = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    const bool is = std::find(dims.begin(), dims.end(), static_cast<int64_t>(i)) != dims.end();
    if (!merged.empty() && (last == (is ? 1 : 0) || shape[i] == 1)) {
      merged.back() *= Dim(shape[i]);
      continue;
    }
    if (is) reduced.push_back(Dim(static_cast<int64_t>(merged.size())));
    merged.push_back(Dim(shape[i]));
    last = is ? 1 : 0;
  }
  if (merged.size() > kManyAxes) {
    // Kept and reduced axes alternate: one after the other. The mean of means of equally many is the mean.
    if (h.op() == Op::var) return no_match("no axes can be merged");
    Shape rest = shape;
    ValueId x = h.in();
    for (const int64_t d : dims) {
      Dims three{Dim(1), Dim(rest[static_cast<size_t>(d)]), Dim(1)};
      for (size_t i = 0; i < rest.size(); ++i)
        if (static_cast<int64_t>(i) != d) three[static_cast<int64_t>(i) < d ? 0 : 2] *= Dim(rest[i]);
      x = h.add(h.op(), {h.reshape(x, three)}, {{"dims", Dims{Dim(1)}}, {"keepdim", true}});
      rest[static_cast<size_t>(d)] = 1;
    }
    return h.result(h.reshape(x, h.out_type().dims));
  }
  Attrs attrs = h.attrs();
  attrs.set("dims", reduced);
  attrs.set("keepdim", true);
  return h.result(h.reshape(h.add(h.op(), {h.reshape(h.in(), merged)}, attrs), h.out_type().dims));
}

// The last axes stay, all before them become one.
Match merge_leading(Htp& h, int64_t kept) {
  const Shape shape = h.shape(h.in());
  Dims merged{Dim(1)};
  for (size_t i = 0; i < shape.size(); ++i)
    if (static_cast<int64_t>(i) < static_cast<int64_t>(shape.size()) - kept)
      merged[0] *= Dim(shape[i]);
    else
      merged.push_back(Dim(shape[i]));
  std::vector<ValueId> inputs = h.node().inputs;
  inputs[0] = h.reshape(h.in(), merged);
  return h.result(h.reshape(h.add(h.op(), std::move(inputs), h.attrs()), h.out_type().dims));
}

Match merge_axes(Htp& h) {
  size_t most = h.out_type().rank();
  for (const ValueId v : h.node().inputs)
    if (v.valid()) most = std::max(most, h.type(v).rank());
  for (const ValueId v : h.node().inputs)
    if (v.valid() && !is_static(h.dims(v))) return no_match("its shape is symbolic");
  if (most <= kManyAxes || !is_static(h.out_type().dims)) return no_match("it has few axes");
  if (is_elementwise(h.op())) return merge_elementwise(h);
  switch (h.op()) {
    case Op::sum:
    case Op::mean:
    case Op::amax:
    case Op::amin:
    case Op::any:
    case Op::all:
    case Op::var:
      return merge_reduced(h);
    case Op::softmax:
    case Op::log_softmax:
    case Op::argmax:
    case Op::argmin:
    case Op::cumsum:
    case Op::cumprod:
    case Op::cummax:
    case Op::cummin:
    case Op::logcumsumexp:
    case Op::gather:
    case Op::sort:
    case Op::topk:
      return merge_around(h);
    case Op::layer_norm:
    case Op::rms_norm:
      return merge_leading(h, h.attrs().integer("axes"));
    case Op::linear:
      return merge_leading(h, 1);
    default:
      return no_match("its axes are not merged");
  }
}

Match expand_by_axis(Htp& h) {
  if (h.op() != Op::expand || !is_static(h.out_type().dims) || !is_static(h.dims(h.in())))
    return no_match("it is no expand");
  const Shape out = static_shape(h.out_type().dims);
  if (out.size() <= kManyAxes) return no_match("it has few axes");
  const ValueId x = expand_stepwise(h, h.in(), out);
  return h.result(h.reshape(x, h.out_type().dims));
}

// ---- types

// The op on operands of another dtype, results converted back.
Match computed_as(Htp& h, bool (*from)(DType), DType to) {
  bool any = false;
  std::vector<ValueId> inputs;
  for (const ValueId v : h.node().inputs) {
    const bool convert = v.valid() && from(h.dtype(v));
    any = any || convert;
    inputs.push_back(convert ? h.to(v, to) : v);
  }
  Attrs attrs = h.attrs();
  for (auto& [name, value] : attrs)
    if (auto* dtype = std::get_if<DType>(&value); dtype && from(*dtype)) {
      *dtype = to;
      any = true;
    }
  if (!any) return no_match("its types are others");
  if (h.op() == Op::to) {
    if (h.dtype(inputs[0]) == attrs.dtype("dtype")) return h.result(h.to(inputs[0], h.out_type().dtype));
  }
  const std::vector<ValueId> made = h.patch.add_all(h.op(), std::move(inputs), std::move(attrs));
  std::vector<ValueId> out;
  for (size_t i = 0; i < h.node().outputs.size(); ++i)
    out.push_back(i < made.size() ? h.to(made[i], h.out_type(i).dtype) : kNoValue);
  return h.results(out);
}

Match float32(Htp& h) {
  return computed_as(
      h, [](DType d) { return d == DType::f64 || d == DType::bf16; }, DType::f32);
}
Match int32(Htp& h) {
  return computed_as(
      h, [](DType d) { return is_integer(d) && d != DType::i32 && d != DType::i64; }, DType::i32);
}
Match float_numbers(Htp& h) {
  if (h.op() == Op::to) return no_match("it is a conversion");
  for (const ValueId v : h.node().inputs)
    if (const Tensor* data = v.valid() ? h.constant_data(v) : nullptr) {
      const Tensor flat = to_contiguous(*data);
      for (int64_t i = 0; i < flat.count(); ++i)
        if (std::abs(element_real(flat, i)) > kExactHalf) return no_match("halves do not hold its constants");
    }
  return computed_as(
      h, [](DType d) { return is_integer(d); }, DType::f32);
}

// ---- integers by powers of two

// x << n = x 2^n; x >> n = floor(x / 2^n); x & (2^n - 1) = x mod 2^n
Match power_of_two(Htp& h) {
  if (h.op() != Op::shift_left && h.op() != Op::shift_right && h.op() != Op::bitwise_and)
    return no_match("it is no shift or mask");
  if (!is_integer(h.out_type().dtype)) return no_match("it is of bools");
  ValueId x = h.in(0);
  const Tensor* by = h.constant_data(h.in(1));
  if (!by && h.op() == Op::bitwise_and) {
    x = h.in(1);
    by = h.constant_data(h.in(0));
  }
  if (!by || by->count() != 1) return no_match("by how much is not known");
  const auto n = static_cast<int64_t>(element_real(to_contiguous(*by), 0));
  const Term value(h, x);
  if (h.op() == Op::bitwise_and) {
    if (n < 1 || !std::has_single_bit(static_cast<uint64_t>(n) + 1)) return no_match("the mask has holes");
    return h.result(value.apply(Op::remainder, Term(h, h.patch.scalar(n + 1, value.dtype()))));
  }
  if (n < 0 || n > 30) return no_match("it shifts by too much");
  const Term factor(h, h.patch.scalar(int64_t{1} << n, value.dtype()));
  return h.result(h.op() == Op::shift_left ? value * factor
                                           : value.apply(Op::div, factor, {{"rounding", "floor"}}));
}

// ---- formulas

// The op as the CPU has it: scans for running products and maxima, averages and roots for norms, tables for
// images.
Match formula(Htp& h) {
  Legal legal(h.graph, h.node());
  return legal_rule(h.op())(legal);
}

Match tanh_gelu(Htp& h) {
  if (h.op() != Op::gelu || h.attrs().text("approximate") == "tanh") return no_match("it is no erf GELU");
  Attrs attrs = h.attrs();
  attrs.set("approximate", "tanh");
  return h.result(h.add(Op::gelu, {h.in()}, std::move(attrs)));
}

// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
Match gelu_formula(Htp& h) {
  if (h.op() != Op::gelu) return no_match("it is no GELU");
  const Term x = h.term();
  return h.result(x * 0.5 * ((x * (x * x * 0.044715 + 1.0) * std::sqrt(2 / M_PI)).apply(Op::tanh) + 1.0));
}

// x - max(x) less log(sum(exp)), and exp of it over its sum.
Match softmax_formula(Htp& h) {
  if (h.op() != Op::softmax && h.op() != Op::log_softmax) return no_match("it is no softmax");
  const Term x = h.term();
  const Shape dims{h.attrs().integer("dim")};
  const Term shifted = x - x.reduce(Op::amax, dims), powers = shifted.apply(Op::exp);
  if (h.op() == Op::softmax) return h.result(powers / powers.reduce(Op::sum, dims));
  return h.result(shifted - powers.reduce(Op::sum, dims).apply(Op::log));
}

// (x - mean) rsqrt(var + eps) weight + bias
Match norm_formula(Htp& h) {
  if (h.op() != Op::layer_norm && h.op() != Op::rms_norm) return no_match("it is no norm of last axes");
  Term x = h.term();
  Shape dims;
  for (int64_t i = x.rank() - h.attrs().integer("axes"); i < x.rank(); ++i) dims.push_back(i);
  if (h.op() == Op::layer_norm) x = x - x.reduce(Op::mean, dims);
  Term y = x * ((x * x).reduce(Op::mean, dims) + h.attrs().real("eps")).apply(Op::rsqrt);
  if (h.in(1).valid()) y = y * h.term(1);
  if (h.in(2).valid()) y = y + h.term(2);
  return h.result(y);
}

// Giles' two polynomials of w = -log(1 - x^2), exact to three digits of a half.
Match erfinv_formula(Htp& h) {
  if (h.op() != Op::erfinv) return no_match("it is no inverse error function");
  const Term x = h.term();
  const Term w = -((1.0 - x) * (x + 1.0)).apply(Op::log);
  constexpr double kNear[] = {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                              -0.00125372503, -0.00417768164, 0.246640727,    1.50140941};
  constexpr double kFar[] = {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                             -0.0076224613,   0.00943887047,  1.00167406,    2.83297682};
  const auto polynomial = [](const Term& t, const double(&c)[9]) {
    Term sum = t * c[0] + c[1];
    for (int i = 2; i < 9; ++i) sum = sum * t + c[i];
    return sum;
  };
  const Term near = polynomial(w - 2.5, kNear);
  const Term far = polynomial(w.apply(Op::maximum, w.number(0)).apply(Op::sqrt) - 3.0, kFar);
  return h.result(x * where(w.apply(Op::lt, w.number(5)), near, far));
}

// ---- convolutions, pools, images

// A filter that is computed, with zeros between its taps, instead of a dilation: pad(reshape(w)).
Match dilated_filter(Htp& h) {
  if (h.op() != Op::convolution || h.constant_data(h.in(1))) return no_match("its filter is known");
  const Shape dilation = h.attrs().ints("dilation");
  if (std::all_of(dilation.begin(), dilation.end(), [](int64_t d) { return d == 1; }))
    return no_match("it has no dilation");
  ValueId w = h.in(1);
  Shape shape = h.shape(w);
  for (size_t i = 0; i < dilation.size(); ++i) {
    if (dilation[i] == 1) continue;
    const size_t axis = i + 2;
    Dims three{Dim(1), Dim(shape[axis]), Dim(1)};
    for (size_t k = 0; k < shape.size(); ++k)
      if (k != axis) three[k < axis ? 0 : 2] *= Dim(shape[k]);
    // [before, k, after] -> [before * k, 1, after], zeros after each, and the last ones cut off.
    const Dims rows{three[0] * three[1], Dim(1), three[2]};
    w = h.add(Op::pad, {h.reshape(w, rows)},
              {{"before", Dims{0, 0, 0}},
               {"after", Dims{0, Dim(dilation[i] - 1), 0}},
               {"mode", "constant"},
               {"value", 0.0}});
    const int64_t taps = (shape[axis] - 1) * dilation[i] + 1;
    w = h.reshape(w, {three[0], Dim(shape[axis] * dilation[i]), three[2]});
    w = h.slice(w, 1, 0, taps);
    shape[axis] = taps;
    w = h.reshape(w, to_dims(shape));
  }
  std::vector<ValueId> inputs = h.node().inputs;
  inputs[1] = w;
  Attrs attrs = h.attrs();
  attrs.set("dilation", Dims(dilation.size(), Dim(1)));
  return h.result(h.add(Op::convolution, std::move(inputs), std::move(attrs)));
}

// max_pool with indices: every tap of the window is a slice; the largest so far and where it stood.
Match pool_by_slices(Htp& h) {
  if (h.op() != Op::max_pool || !h.is_used(1)) return no_match("it is no pool with indices");
  const Shape in = h.shape(h.in()), kernel = h.attrs().ints("kernel"), stride = h.attrs().ints("stride"),
              padding = h.attrs().ints("padding"), dilation = h.attrs().ints("dilation");
  const Shape out = static_shape(h.out_type().dims);
  const size_t n = kernel.size(), first = in.size() - n;
  if (numel(kernel) > 64 || !is_float(h.out_type().dtype)) return no_match("its window is large");
  // Padded so that every window fits.
  Dims before(in.size(), Dim(0)), after(in.size(), Dim(0));
  Shape padded = in;
  for (size_t i = 0; i < n; ++i) {
    const int64_t need = (out[first + i] - 1) * stride[i] + (kernel[i] - 1) * dilation[i] + 1;
    before[first + i] = padding[i];
    after[first + i] = std::max<int64_t>(0, need - in[first + i] - padding[i]);
    padded[first + i] = in[first + i] + padding[i] + after[first + i].value();
  }
  const Term x(h, h.add(Op::pad, {h.in()},
                        {{"before", before}, {"after", after}, {"mode", "constant"}, {"value", -65504.0}}));
  // Positions in the unpadded plane; the same for every plane.
  Shape plane_out(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
  ValueId best = kNoValue, at = kNoValue;
  Shape tap(n, 0);
  for (int64_t k = 0; k < numel(kernel); ++k) {
    ValueId piece = x;
    int64_t rest = k;
    for (size_t i = n; i-- > 0; rest /= kernel[i]) tap[i] = rest % kernel[i];
    for (size_t i = 0; i < n; ++i) {
      const int64_t start = tap[i] * dilation[i];
      piece = h.slice(piece, static_cast<int64_t>(first + i), start,
                      start + (out[first + i] - 1) * stride[i] + 1, stride[i]);
    }
    std::vector<int64_t> where_at;
    for (int64_t p = 0; p < numel(plane_out); ++p) {
      int64_t left = p, position = 0, scale = 1;
      for (size_t i = n; i-- > 0; left /= plane_out[i]) {
        const int64_t o = left % plane_out[i];
        position += (o * stride[i] + tap[i] * dilation[i] - padding[i]) * scale;
        scale *= in[first + i];
      }
      where_at.push_back(position);
    }
    const ValueId here = h.ints(plane_out, where_at);
    if (k == 0) {
      best = piece;
      at = h.expand(here, to_dims(out));
      continue;
    }
    const Term more = Term(h, piece).apply(Op::gt, Term(h, best));
    at = where(more, Term(h, here), Term(h, at));
    best = where(more, Term(h, piece), Term(h, best));
  }
  return h.results({best, at});
}

Match bilinear(Htp& h) {
  if (h.op() != Op::grid_sampler || h.attrs().text("mode") != "bicubic") return no_match("it is not bicubic");
  Attrs attrs = h.attrs();
  attrs.set("mode", "bilinear");
  return h.result(h.add(Op::grid_sampler, h.node().inputs, std::move(attrs)));
}

constexpr Fix kFixes[] = {
    {"merge_axes", "axes merged by reshapes around it", true, merge_axes},
    {"expand_by_axis", "expanded an axis at a time, with reshapes around it", true, expand_by_axis},
    {"power_of_two", "a product, a division or a remainder by a power of two", true, power_of_two},
    {"int32", "computed with 32-bit integers (overflow of the narrow type differs)", true, int32},
    {"dilated_filter", "zeros between the taps of the filter instead of a dilation", true, dilated_filter},
    {"pool_by_slices", "the window as slices, with comparisons that remember the place", true,
     pool_by_slices},
    {"softmax_formula", "exponentials over their sum", true, softmax_formula},
    {"norm_formula", "means and a root", true, norm_formula},
    {"float32", "computed with float32, which the device computes as halves", false, float32},
    {"formula", "simpler ops that give the same", true, formula},
    {"formula_in_float32", "simpler ops, computed with float32, which the device computes as halves", false,
     formula, "float32"},
    {"tanh_gelu", "GELU by tanh instead of erf", false, tanh_gelu},
    {"gelu_formula", "GELU by tanh, as products", false, gelu_formula},
    {"erfinv_formula", "two polynomials", false, erfinv_formula},
    {"float_numbers", "computed with floats, exact up to 2048", false, float_numbers},
    {"bilinear", "bilinear sampling instead of bicubic", false, bilinear},
};

}  // namespace

std::span<const Fix> fixes() { return kFixes; }

const Fix* find_fix(std::string_view name) {
  for (const Fix& fix : kFixes)
    if (fix.name == name) return &fix;
  return nullptr;
}

Result<size_t> apply_fix(Graph& graph, const Fix& fix, std::string_view node, const std::set<Op>& ops,
                         const HtpTarget& target) {
  const std::string prefix = cat("fix ", fix.name);
  Rewriter rewriter(graph);
  // What a fix made is not fixed again.
  SF_TRY(rewriter.rewrite_each(prefix, [&](const Node& n) -> Match {
    const Origin& origin = graph.origin(n);
    if (origin.name != node || origin.rule.starts_with(prefix)) return no_match("another node");
    if (!ops.empty() && !ops.contains(n.op)) return no_match("the device has this part");
    for (const ValueId v : n.inputs)
      if (v.valid() && !is_static(graph.dims(v))) return no_match("its shape is symbolic");
    Htp h(graph, n, target);
    return fix.apply(h);
  }));
  const size_t matched = rewriter.log().size();
  if (matched == 0 || !fix.then) return matched;
  SF_TRY(apply_fix(graph, *find_fix(fix.then), node, {}, target));
  SF_TRY(drop_round_trips(graph));
  return matched;
}

bool is_conversion_of_fix(const Graph& graph, const Node& node) {
  return node.op == Op::to && graph.origin(node).rule.starts_with("fix ");
}

Status drop_round_trips(Graph& graph) {
  static constexpr Rule kRules[] = {{"drop_round_trip", [](const Graph& g, const Node& node) -> Match {
                                       const Node* before =
                                           node.op == Op::to ? g.producer(node.input(0)) : nullptr;
                                       if (!before || !is_conversion_of_fix(g, *before))
                                         return no_match("nothing goes there and back");
                                       const DType between = g.dtype(node.input(0));
                                       if (between != DType::f64 && between != DType::bf16)
                                         return no_match("it may round");
                                       if (g.dtype(before->input(0)) != g.dtype(node.output()))
                                         return no_match("it ends elsewhere");
                                       Patch patch(g, node);
                                       patch.replace(node.output(), before->input(0));
                                       return patch;
                                     }}};
  return Rewriter(graph).apply(kRules);
}

}  // namespace sixfold
