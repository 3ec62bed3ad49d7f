// Tensors from numbers: full, arange, linspace, eye, rand and their kin.
#include <cmath>

#include "sixfold/ops/expr.h"
#include "sixfold/ops/rule_table.h"
#include "sixfold/ops/shape/build.h"

namespace sixfold::aten {
namespace {

DType dtype_of_number(const Attr* a) {
  if (a && std::holds_alternative<bool>(*a)) return DType::boolean;
  return a && std::holds_alternative<Dim>(*a) ? DType::i64 : DType::f32;
}

// The dtype argument, or the one of `self` where the op has it, or `otherwise`.
DType dtype_or(Call& call, DType otherwise) {
  if (const auto dtype = call.dtype("dtype")) return *dtype;
  return call.is_tensor("self") ? call.dtype_of(call.tensor("self")) : otherwise;
}
// The size argument, or the shape of `self`.
Dims shape_argument(Call& call) {
  return call.attr("size") ? call.dims("size") : call.dims_of(call.tensor("self"));
}

Status filled(Call& call, Attr value, DType otherwise) {
  return call.result(full(call, shape_argument(call), std::move(value), dtype_or(call, otherwise)));
}
Status zeros(Call& call) { return filled(call, Attr(Dim(0)), DType::f32); }
Status ones(Call& call) { return filled(call, Attr(Dim(1)), DType::f32); }
Status full_rule(Call& call) {
  const Attr* value = call.attr("fill_value");
  if (call.is_tensor("fill_value")) {
    const DType dtype = dtype_or(call, call.dtype_of(call.tensor("fill_value")));
    return call.result(expand(call, call.to(call.tensor("fill_value"), dtype), shape_argument(call)));
  }
  if (!value) return invalid_model("full without a value");
  return filled(call, *value, dtype_of_number(value));
}
Status scalar_tensor(Call& call) {
  if (call.is_tensor("s")) return call.result(call.to(call.tensor("s"), dtype_or(call, DType::f32)));
  const Attr* value = call.attr("s");
  return call.result(full(call, {}, value ? *value : Attr(0.0), dtype_or(call, DType::f32)));
}

Status arange(Call& call) {
  const Attr start = call.attr("start") ? *call.attr("start") : Attr(Dim(0));
  const Attr step = call.attr("step") ? *call.attr("step") : Attr(Dim(1));
  const Attr end = call.attr("end") ? *call.attr("end") : Attr(Dim(0));
  bool reals = false;
  for (const Attr* a : {&start, &end, &step}) reals = reals || std::holds_alternative<double>(*a);
  const DType dtype = call.dtype("dtype").value_or(reals ? DType::f32 : DType::i64);
  Dim length(0);
  if (reals) {
    const auto number = [](const Attr& a) {
      const double* x = std::get_if<double>(&a);
      const Dim* d = std::get_if<Dim>(&a);
      return x ? *x : d ? static_cast<double>(d->value_or(0)) : 0.0;
    };
    // Numbers that are symbolic leave the length to what the file says.
    const auto symbolic = [](const Attr& a) {
      const Dim* d = std::get_if<Dim>(&a);
      return d && !d->is_static();
    };
    if (symbolic(start) || symbolic(end) || symbolic(step)) {
      const Dims& dims = call.output_type().dims;
      if (dims.size() != 1 || symbolic(start) || symbolic(step))
        return call.unsupported("a range of real numbers from or by a symbolic size");
      return call.result(
          call.op(Op::arange, {}, {{"start", start}, {"step", step}, {"length", dims[0]}, {"dtype", dtype}}));
    }
    double count = (number(end) - number(start)) / number(step);
    if (is_integer(dtype))
      count = (std::trunc(number(end)) - std::trunc(number(start))) / std::trunc(number(step));
    if (!(count >= 0 && count < 1e12))
      return invalid_model("arange from ", number(start), " to ", number(end), " by ", number(step));
    length = Dim(static_cast<int64_t>(std::ceil(count)));
  } else {
    const Dim *first = std::get_if<Dim>(&start), *last = std::get_if<Dim>(&end),
              *by = std::get_if<Dim>(&step);
    if (!first || !last || !by || *by == Dim(0)) return invalid_model("arange without bounds");
    if (!by->is_static()) return call.unsupported("its step is symbolic");
    const Dim up = by->value() > 0 ? Dim(1) : Dim(-1);
    length = floordiv(*last - *first + *by - up, *by);
    if (length.value_or(0) < 0) return invalid_model("arange from ", *first, " to ", *last, " by ", *by);
  }
  return call.result(
      call.op(Op::arange, {}, {{"start", start}, {"step", step}, {"length", length}, {"dtype", dtype}}));
}

// A number argument, or a tensor of one known element.
std::optional<double> known_number(Call& call, std::string_view name) {
  if (!call.is_tensor(name)) return call.real(name);
  const auto t = call.known(call.tensor(name));
  if (!t || t->count() != 1) return std::nullopt;
  return element_real(*t, 0);
}

// From both ends to the middle, as torch: the last element is exactly `end`.
Expr evenly_spaced(const Expr& start, const Expr& end, int64_t steps) {
  Call& call = start.call();
  const Expr i = Expr(call, count_up(call, Dim(steps))).to(start.dtype());
  if (steps == 1) return i + start;
  const Expr step = (end - start) / static_cast<double>(steps - 1);
  return where(i.less(i.number(static_cast<double>(steps / 2))), start + step * i,
               end - step * (static_cast<double>(steps - 1) - i));
}

// Counts in bins between min and max; both 0: between the least and the largest element.
Status histc(Call& call) {
  Expr x(call, flatten(call, call.tensor("self")));
  const DType dtype = x.dtype();
  const int64_t bins = call.integer("bins");
  if (!ok(call)) return stop(call);
  if (bins < 1 || bins > (1 << 24)) return invalid_model("a histogram of ", bins, " bins");
  x = x.to(to_float(dtype));
  Expr low = x.number(call.real("min")), high = x.number(call.real("max"));
  if (call.real("min") == call.real("max")) {
    if (call.real("min") == 0 && !(x.dims()[0] == Dim(0)))
      low = reduce(Op::amin, x, {0}), high = reduce(Op::amax, x, {0});
    const Expr flat = low.apply(Op::eq, high);
    const Expr first = low;
    low = where(flat, low - 1.0, low);
    high = where(flat, first + 1.0, high);
  }
  // Each step in x's dtype, as torch: which side of an edge an element falls on depends on it.
  const Expr inside = low.apply(Op::le, x).apply(Op::logical_and, x.apply(Op::le, high));
  Expr bin = where(inside, (x - low) * static_cast<double>(bins) / (high - low), 0.0).to(DType::i64);
  bin = minimum(bin, bin.number(static_cast<double>(bins - 1)));
  // What lies outside, NaN too, is counted in one more bin that nobody reads.
  bin = where(inside, bin, static_cast<double>(bins));
  x = x.to(dtype == DType::f64 ? dtype : DType::f32);
  const Dims count{x.dims()[0]};
  const ValueId one = expand(call, call.scalar(1.0, x.dtype()), count);
  const ValueId counts = call.op(Op::scatter, {full(call, {Dim(bins + 1)}, Attr(0.0), x.dtype()), bin, one},
                                 {{"dim", Dim(0)}, {"reduce", "add"}, {"include_self", true}});
  return call.result(call.to(call.slice(counts, 0, Dim(0), Dim(bins)), dtype));
}

Status spaced(Call& call, bool logarithmic) {
  const auto start = known_number(call, "start"), end = known_number(call, "end");
  const int64_t steps = call.integer("steps");
  const DType dtype = dtype_or(call, DType::f32);
  const double base = logarithmic ? call.real("base") : 0.0;
  if (!ok(call)) return stop(call);
  if ((!start || !end) && steps > 0) {
    const DType wide = dtype == DType::f32 || is_half(dtype) ? DType::f32 : DType::f64;
    const auto bound = [&](std::string_view name) {
      return Expr(call, call.to(call.reshape(call.tensor_or_scalar(name, wide), {}), wide));
    };
    Expr x = evenly_spaced(bound("start"), bound("end"), steps);
    if (logarithmic) x = x.number(base).apply(Op::pow, x);
    return call.result(x.to(dtype));
  }
  if (steps == 0) return call.result(full(call, {Dim(0)}, Attr(Dim(0)), dtype));
  if (!start || !end || steps < 0 || steps > (int64_t{1} << 28))
    return invalid_model("linspace of ", steps, " steps");
  std::byte* bytes = nullptr;
  Tensor out = call.allocate(dtype, {steps}, &bytes);
  if (!bytes) return stop(call);
  with_type(dtype, [&](auto tag) {
    using T = decltype(tag);
    using Step = std::conditional_t<std::is_same_v<T, double> || std::is_integral_v<T>, double, float>;
    const auto first = static_cast<Step>(*start), last = static_cast<Step>(*end);
    const Step step = steps > 1 ? (last - first) / static_cast<Step>(steps - 1) : Step(0);
    auto* values = reinterpret_cast<T*>(bytes);
    for (int64_t i = 0; i < steps; ++i) {
      const Step x = i < steps / 2 || steps == 1 ? first + step * static_cast<Step>(i)
                                                 : last - step * static_cast<Step>(steps - 1 - i);
      const double y = logarithmic ? std::pow(base, static_cast<double>(x)) : static_cast<double>(x);
      if constexpr (std::is_integral_v<T>)
        values[i] = static_cast<T>(y);
      else
        values[i] = T(static_cast<Step>(y));
    }
  });
  return call.result(call.constant(std::move(out)));
}
Status linspace(Call& call) { return spaced(call, false); }
Status logspace(Call& call) { return spaced(call, true); }

Status eye(Call& call) {
  const Dim n = call.dim("n"), m = call.attr("m") ? call.dim("m") : n;
  const ValueId same = call.op(Op::eq, {call.reshape(count_up(call, n), {n, Dim(1)}), count_up(call, m)});
  return call.result(call.to(same, dtype_or(call, DType::f32)));
}

Status one_hot(Call& call) {
  const ValueId x = call.tensor("self");
  const Dim classes = call.dim("num_classes");
  if (classes == Dim(-1)) return call.unsupported("output shape depends on data: num_classes is not given");
  const ValueId column = call.unsqueeze(x, call.rank(x));
  return call.result(
      call.to(call.op(Op::eq, {column, count_up(call, classes, call.dtype_of(x))}), DType::i64));
}

// Columns 1, x, x^2, ..: products from left to right.
Status vander(Call& call) {
  ValueId x = call.tensor("x");
  const Shape shape = call.shape(x);
  if (!ok(call)) return stop(call);
  if (shape.size() != 1) return invalid_model("vander of ", call.type(x));
  const int64_t columns = call.integer_or("N", shape[0]);
  const DType dtype =
      is_integer(call.dtype_of(x)) || call.dtype_of(x) == DType::boolean ? DType::i64 : call.dtype_of(x);
  if (columns < 0) return invalid_model("vander of ", columns, " columns");
  x = call.to(x, dtype);
  ValueId out = full(call, {Dim(shape[0]), Dim(std::min<int64_t>(columns, 1))}, Attr(Dim(1)), dtype);
  if (columns > 1) {
    const ValueId powers = expand(call, call.unsqueeze(x, 1), {Dim(shape[0]), Dim(columns - 1)});
    out = concat(call, {out, call.op(Op::cumprod, {powers}, {{"dim", Dim(1)}})}, 1);
  }
  if (!call.flag("increasing") && columns > 1) out = call.op(Op::flip, {out}, {{"dims", Dims{1}}});
  return call.result(out);
}

// Every random node has a seed of its own, the same in each compilation.
ValueId random(Call& call, Op op, const Dims& shape, DType dtype) {
  return call.op(op, {}, {{"shape", shape}, {"dtype", dtype}, {"seed", Dim(call.seed())}});
}
Status rand(Call& call) {
  return call.result(random(call, Op::rand, shape_argument(call), dtype_or(call, DType::f32)));
}
Status randn(Call& call) {
  return call.result(random(call, Op::randn, shape_argument(call), dtype_or(call, DType::f32)));
}
Status randint(Call& call) {
  const int64_t low = call.integer_or("low", 0), high = call.integer("high");
  const ValueId unit = random(call, Op::rand, shape_argument(call), DType::f64);
  const ValueId scaled = call.op(Op::mul, {unit, call.scalar(static_cast<double>(high - low), DType::f64)});
  const ValueId shifted =
      call.op(Op::add, {call.op(Op::floor, {scaled}), call.scalar(static_cast<double>(low), DType::f64)});
  return call.result(call.to(shifted, dtype_or(call, DType::i64)));
}
Status randperm(Call& call) {
  const ValueId keys = random(call, Op::rand, {call.dim("n")}, DType::f64);
  const auto sorted = call.op_all(Op::sort, {keys}, {{"dim", Dim(0)}, {"descending", false}});
  return call.result(call.to(sorted[1], dtype_or(call, DType::i64)));
}

constexpr AtenRule kRules[] = {
    {"aten.zeros.default", zeros},
    {"aten.zeros_like.default", zeros},
    {"aten.new_zeros.default", zeros},
    {"aten.empty.memory_format", zeros},
    {"aten.empty_like.default", zeros},
    {"aten.empty_permuted.default", zeros},
    {"aten.empty_strided.default", zeros},
    {"aten.new_empty.default", zeros},
    {"aten.new_empty_strided.default", zeros},
    {"dim_order_ops._empty_dim_order.default", zeros},
    {"aten.ones.default", ones},
    {"aten.ones_like.default", ones},
    {"aten.new_ones.default", ones},
    {"aten.full.default", full_rule},
    {"aten.full_like.default", full_rule},
    {"aten.new_full.default", full_rule},
    {"aten.scalar_tensor.default", scalar_tensor},
    {"aten.arange.default", arange},
    {"aten.arange.start", arange},
    {"aten.arange.start_step", arange},
    {"aten.linspace.default", linspace},
    {"aten.linspace.Tensor_Tensor", linspace},
    {"aten.linspace.Tensor_Scalar", linspace},
    {"aten.linspace.Scalar_Tensor", linspace},
    {"aten.logspace.default", logspace},
    {"aten.logspace.Tensor_Tensor", logspace},
    {"aten.logspace.Tensor_Scalar", logspace},
    {"aten.logspace.Scalar_Tensor", logspace},
    {"aten.histc.default", histc},
    {"aten.eye.default", eye},
    {"aten.eye.m", eye},
    {"aten.one_hot.default", one_hot},
    {"aten.vander.default", vander},
    {"aten.rand.default", rand},
    {"aten.rand.generator", rand},
    {"aten.rand_like.default", rand},
    {"aten.rand_like.generator", rand},
    {"aten.randn.default", randn},
    {"aten.randn.generator", randn},
    {"aten.randn_like.default", randn},
    {"aten.randn_like.generator", randn},
    {"aten.randint.default", randint},
    {"aten.randint.generator", randint},
    {"aten.randint.low", randint},
    {"aten.randint.low_generator", randint},
    {"aten.randint_like.default", randint},
    {"aten.randint_like.generator", randint},
    {"aten.randint_like.low_dtype", randint},
    {"aten.randint_like.low_generator_dtype", randint},
    {"aten.randperm.default", randperm},
    {"aten.randperm.generator", randperm},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> create_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
