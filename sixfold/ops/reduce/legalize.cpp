// Reductions as kernels. Half tensors are summed in float. What has no kernel (running products and maxima)
// is a scan in log2(extent) steps.
#include "sixfold/ops/legalize.h"

#include <cmath>

namespace sixfold::legalize {
namespace {

Attr dims_attr(Legal& legal) { return legal.attrs().dims("dims"); }

bool sums(Op op) { return op == Op::sum || op == Op::mean; }

// log(exp(a) + exp(b)); equal infinities are themselves.
Term log_add(const Term& a, const Term& b) {
  const Term distance = (a - b).apply(Op::abs);
  const Term sum = a.apply(Op::maximum, b) + (-distance).apply(Op::exp).apply(Op::log1p);
  return where(a.apply(Op::eq, b).apply(Op::logical_and, a.apply(Op::isinf)), a, sum);
}

// values and, for cummax and cummin, where they stood
struct Running {
  ValueId values, indices;
};

Running combine(Legal& legal, const Running& left, const Running& right) {
  const Term a(legal, left.values), b(legal, right.values);
  switch (legal.op()) {
    case Op::cumprod:
      return {a * b, kNoValue};
    case Op::logcumsumexp:
      return {log_add(a, b), kNoValue};
    default:
      break;
  }
  // The last of equals; a NaN is never left, except for a later one.
  Term take = b.apply(legal.op() == Op::cummax ? Op::ge : Op::le, a);
  if (is_float(a.dtype())) take = take.apply(Op::logical_or, b.apply(Op::isnan));
  return {where(take, b, a), where(take, Term(legal, right.indices), Term(legal, left.indices))};
}

}  // namespace

Match reduce(Legal& legal) {
  const ValueId x = legal.in();
  const DType dtype = legal.dtype(x);
  if (legal.rank(x) == 0) return legal.result(x);
  if (is_half(dtype) && sums(legal.op())) return legal.computed_in(DType::f32);
  const Attr keepdim = legal.attrs().flag("keepdim");
  switch (legal.op()) {
    case Op::sum:
      return legal.call("aten.sum.dim_IntList",
                        {{"self", x}, {"dim", dims_attr(legal)}, {"keepdim", keepdim}, {"dtype", dtype}});
    case Op::mean:
      return legal.call("aten.mean.dim", {{"self", x}, {"dim", dims_attr(legal)}, {"keepdim", keepdim}});
    case Op::any:
      return legal.call("aten.any.dims", {{"self", x}, {"dim", dims_attr(legal)}, {"keepdim", keepdim}});
    default:
      return legal.call(cat("aten.", legal.op(), ".default"),
                        {{"self", x}, {"dim", dims_attr(legal)}, {"keepdim", keepdim}});
  }
}

Match all(Legal& legal) {
  const Term x = legal.term();
  return legal.result(x.apply(Op::logical_not).apply(Op::any, legal.attrs()).apply(Op::logical_not));
}

// The kernel takes one axis.
Match prod(Legal& legal) {
  const ValueId x = legal.in();
  if (legal.rank(x) == 0) return legal.result(x);
  const Shape dims = legal.attrs().ints("dims");
  if (dims.size() == 1)
    return legal.call("aten.prod.dim_int", {{"self", x},
                                            {"dim", Dim(dims[0])},
                                            {"keepdim", legal.attrs().flag("keepdim")},
                                            {"dtype", legal.dtype(x)}});
  Term y = legal.term();
  for (const int64_t d : dims) y = y.reduce(Op::prod, {d});
  return legal.result(y.reshape(legal.out_type().dims));
}

Match var(Legal& legal) {
  const ValueId x = legal.in();
  if (is_half(legal.dtype(x))) return legal.computed_in(DType::f32);
  return legal.call("aten.var.correction", {{"self", x},
                                            {"dim", dims_attr(legal)},
                                            {"correction", legal.attrs().real("correction")},
                                            {"keepdim", legal.attrs().flag("keepdim")}});
}

Match arg_reduce(Legal& legal) {
  const ValueId x = legal.in();
  if (legal.dtype(x) == DType::boolean) return legal.computed_in(DType::u8);
  if (legal.rank(x) == 0) return legal.result(legal.patch.scalar(int64_t{0}, DType::i64));
  return legal.call(
      cat("aten.", legal.op(), ".default"),
      {{"self", x}, {"dim", Dim(legal.attrs().integer("dim"))}, {"keepdim", legal.attrs().flag("keepdim")}});
}

Match cumsum(Legal& legal) {
  const ValueId x = legal.in();
  if (legal.rank(x) == 0) return legal.result(x);
  if (is_half(legal.dtype(x))) return legal.computed_in(DType::f32);
  return legal.call("aten.cumsum.default",
                    {{"self", x}, {"dim", Dim(legal.attrs().integer("dim"))}, {"dtype", legal.dtype(x)}});
}

// Element i holds the result of [i - 2^k, i] after step k.
Match scan(Legal& legal) {
  const ValueId x = legal.in();
  if (is_half(legal.dtype(x))) return legal.computed_in(DType::f32);
  const bool indexed = legal.op() == Op::cummax || legal.op() == Op::cummin;
  const Shape shape = legal.shape(x);
  const int64_t dim = legal.attrs().integer("dim"), n = shape.empty() ? 1 : shape[static_cast<size_t>(dim)];
  Running y{x, kNoValue};
  if (indexed) {
    Dims along(shape.size(), Dim(1));
    if (!shape.empty()) along[static_cast<size_t>(dim)] = Dim(n);
    const ValueId count = legal.add(
        Op::arange, {}, {{"start", Dim(0)}, {"step", Dim(1)}, {"length", Dim(n)}, {"dtype", DType::i64}});
    y.indices = legal.expand(legal.reshape(count, along), to_dims(shape));
  }
  const auto cut = [&](const Running& r, int64_t begin, int64_t end) {
    return Running{legal.slice(r.values, dim, begin, end),
                   indexed ? legal.slice(r.indices, dim, begin, end) : kNoValue};
  };
  for (int64_t step = 1; step < n; step *= 2) {
    const Running head = cut(y, 0, step);
    const Running tail = combine(legal, cut(y, 0, n - step), cut(y, step, n));
    y.values = legal.concat({head.values, tail.values}, dim);
    if (indexed) y.indices = legal.concat({head.indices, tail.indices}, dim);
  }
  return indexed ? legal.results({y.values, y.indices}) : legal.result(y.values);
}

}  // namespace sixfold::legalize
