// sum, mean, max, any, var, cumsum and their kin.
#include "sixfold/ops/aten.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "sixfold/ops/reduce/rules.h"
#include "sixfold/ops/rule_table.h"

namespace sixfold::aten {
namespace {

// Sums of bool and integers are i64 unless the call says otherwise.
DType sum_type(Call& call, const Expr& x) {
  if (const auto asked = call.dtype("dtype")) return *asked;
  return is_float(x.dtype()) ? x.dtype() : DType::i64;
}

// dim (an integer, a list or None) and keepdim, where the overload has them; all axes otherwise.
Shape reduced_axes(Call& call, const Expr& x) { return call.axes("dim", x); }
bool keeps(Call& call) { return call.flag_or("keepdim", false); }

Status sum(Call& call) {
  const Expr x = arg(call, "self");
  const DType dtype = sum_type(call, x);
  return call.result(
      reduce(dtype == DType::boolean ? Op::any : Op::sum, x.to(dtype), reduced_axes(call, x), keeps(call)));
}
Status prod(Call& call) {
  const Expr x = arg(call, "self");
  const DType dtype = sum_type(call, x);
  return call.result(
      reduce(dtype == DType::boolean ? Op::all : Op::prod, x.to(dtype), reduced_axes(call, x), keeps(call)));
}
Status mean(Call& call) {
  const Expr x = arg(call, "self");
  return call.result(
      sixfold::mean(x.to(call.dtype("dtype").value_or(x.dtype())), reduced_axes(call, x), keeps(call)));
}

template <Op op>
Status extreme(Call& call) {
  const Expr x = arg(call, "self");
  return call.result(reduce(op, x, reduced_axes(call, x), keeps(call)));
}

Status aminmax(Call& call) {
  const Expr x = arg(call, "self");
  const Shape dims = reduced_axes(call, x);
  return call.results({reduce(Op::amin, x, dims, keeps(call)), reduce(Op::amax, x, dims, keeps(call))});
}

Expr arg_along(Op op, const Expr& x, int64_t dim, bool keepdim) {
  return x.apply(op, {{"dim", Dim(dim)}, {"keepdim", keepdim}});
}

template <Op op, Op arg_op>
Status extreme_dim(Call& call) {
  const Expr x = arg(call, "self");
  const int64_t dim = call.axis("dim", x);
  const bool keepdim = call.flag("keepdim");
  std::vector<ValueId> results(2);
  const auto used = [&](size_t i) { return call.is_used(i); };
  if (call.output_count() != 2) return invalid_model("expected 2 outputs, got ", call.output_count());
  if (used(0)) results[0] = reduce(op, x, x.rank() == 0 ? Shape{} : Shape{dim}, keepdim);
  if (used(1)) results[1] = arg_along(arg_op, x, dim, keepdim);
  return call.results(results);
}

template <Op op>
Status arg_extreme(Call& call) {
  const Expr x = arg(call, "self");
  const bool keepdim = call.flag("keepdim");
  if (!call.is_none("dim")) return call.result(arg_along(op, x, call.axis("dim", x), keepdim));
  const Expr flat = x.reshape({numel(x.dims())});
  const Expr index = arg_along(op, flat, 0, false);
  return call.result(keepdim ? index.reshape(Dims(static_cast<size_t>(x.rank()), Dim(1))) : index);
}

template <Op op>
Status quantifier(Call& call) {
  const Expr x = arg(call, "self");
  const DType dtype = x.dtype() == DType::u8 ? DType::u8 : DType::boolean;  // u8 is torch's old bool
  // An empty list, unlike None, means no axis here.
  const bool no_axes = call.target().ends_with(".dims") && !call.is_none("dim") && call.ints("dim").empty();
  const Expr truth = x.to(DType::boolean);
  return call.result((no_axes ? truth : reduce(op, truth, reduced_axes(call, x), keeps(call))).to(dtype));
}

double correction(Call& call) {
  if (call.attr("unbiased")) return call.flag("unbiased") ? 1 : 0;
  return call.real_or("correction", 1);
}

template <bool kRoot, bool kMean>
Status variance(Call& call) {
  const Expr x = arg(call, "self");
  const Shape dims = reduced_axes(call, x);
  const DType dtype = x.dtype();
  const Expr v = var(x.to(kRoot ? compute_type(dtype) : dtype), dims, correction(call), keeps(call));
  const Expr spread = (kRoot ? sqrt(v) : v).to(dtype);
  if constexpr (kMean) return call.results({spread, sixfold::mean(x, dims, keeps(call))});
  return call.result(spread);
}

// log(sum(exp(x - m))) + m, m the maximum where it is finite: exp cannot overflow, and inf - inf never
// happens. torch takes these steps in the input's dtype, halves too.
Status logsumexp(Call& call) {
  const Expr in = arg(call, "self");
  const Expr x = in.to(to_float(in.dtype()));
  const Shape dims = reduced_axes(call, x);
  const bool keepdim = keeps(call);
  bool empty = false;
  for (const int64_t d : dims) empty = empty || in.dims()[static_cast<size_t>(d)] == Dim(0);
  if (empty) return call.result(log(sixfold::sum(exp(x), dims, keepdim)));
  const Expr max = reduce(Op::amax, x, dims, /*keepdim=*/true);
  const Expr m = where(max.apply(Op::isinf), 0.0, max);
  const Expr total = log(sixfold::sum(exp(x - m), dims, /*keepdim=*/true)) + m;
  if (keepdim) return call.result(total);
  Dims shape;
  for (int64_t i = 0; i < in.rank(); ++i)
    if (std::find(dims.begin(), dims.end(), i) == dims.end())
      shape.push_back(in.dims()[static_cast<size_t>(i)]);
  return call.result(total.reshape(shape));
}

template <Op op>
Status running(Call& call) {
  const Expr x = arg(call, "self");
  return call.result(x.to(sum_type(call, x)).apply(op, {{"dim", Dim(call.axis("dim", x))}}));
}
Status logcumsumexp(Call& call) {
  const Expr x = arg(call, "self");
  return call.result(x.apply(Op::logcumsumexp, {{"dim", Dim(call.axis("dim", x))}}));
}
template <Op op>
Status running_extreme(Call& call) {
  const ValueId x = call.tensor("self");
  const auto out = call.op_all(op, {x}, {{"dim", Dim(call.axis("dim", x))}});
  return call.results({out[0], out[1]});
}

Status count_nonzero(Call& call) {
  const Expr x = arg(call, "self");
  return call.result(sixfold::sum(x.to(DType::boolean).to(DType::i64), reduced_axes(call, x)));
}

Status nansum(Call& call) {
  const Expr in = arg(call, "self");
  const Expr x = in.to(sum_type(call, in));
  const Expr clean = is_float(x.dtype()) ? where(isnan(x), 0.0, x) : x;
  return call.result(sixfold::sum(clean, reduced_axes(call, x), keeps(call)));
}
Status nanmean(Call& call) {
  const Expr in = arg(call, "self");
  const DType dtype = call.dtype("dtype").value_or(in.dtype());
  const Expr x = in.to(compute_type(dtype));
  const Shape dims = reduced_axes(call, x);
  const Expr total = sixfold::sum(where(isnan(x), 0.0, x), dims, keeps(call));
  const Expr count = sixfold::sum(logical_not(isnan(x)).to(DType::i64), dims, keeps(call)).to(x.dtype());
  return call.result((total / count).to(dtype));
}

// The diagonal of a row-major [n, m] is every (m + 1)th element.
Status trace(Call& call) {
  const Expr in = arg(call, "self");
  const Shape shape = call.shape(in);
  if (shape.size() != 2) return invalid_model("trace of ", call.type(in), ", expected rank 2");
  const Expr x = in.to(is_float(in.dtype()) ? in.dtype() : DType::i64);
  const int64_t n = std::min(shape[0], shape[1]);
  const Expr flat = x.reshape({Dim(shape[0] * shape[1])});
  const Expr diagonal(call, call.slice(flat, 0, 0, n == 0 ? 0 : (n - 1) * (shape[1] + 1) + 1, shape[1] + 1));
  return call.result(sixfold::sum(diagonal, {0}));
}

constexpr AtenRule kRules[] = {
    {"aten.sum.default", sum},
    {"aten.sum.dim_IntList", sum},
    {"aten.mean.default", mean},
    {"aten.mean.dim", mean},
    {"aten.prod.default", prod},
    {"aten.prod.dim_int", prod},
    {"aten.amax.default", extreme<Op::amax>},
    {"aten.amin.default", extreme<Op::amin>},
    {"aten.max.default", extreme<Op::amax>},
    {"aten.min.default", extreme<Op::amin>},
    {"aten.max.dim", extreme_dim<Op::amax, Op::argmax>},
    {"aten.min.dim", extreme_dim<Op::amin, Op::argmin>},
    {"aten.aminmax.default", aminmax},
    {"aten._aminmax.default", aminmax},
    {"aten._aminmax.dim", aminmax},
    {"aten.argmax.default", arg_extreme<Op::argmax>},
    {"aten.argmin.default", arg_extreme<Op::argmin>},
    {"aten.any.default", quantifier<Op::any>},
    {"aten.any.dim", quantifier<Op::any>},
    {"aten.any.dims", quantifier<Op::any>},
    {"aten.all.default", quantifier<Op::all>},
    {"aten.all.dim", quantifier<Op::all>},
    {"aten.all.dims", quantifier<Op::all>},
    {"aten.var.default", variance<false, false>},
    {"aten.var.dim", variance<false, false>},
    {"aten.var.correction", variance<false, false>},
    {"aten.std.default", variance<true, false>},
    {"aten.std.dim", variance<true, false>},
    {"aten.std.correction", variance<true, false>},
    {"aten.var_mean.default", variance<false, true>},
    {"aten.var_mean.dim", variance<false, true>},
    {"aten.var_mean.correction", variance<false, true>},
    {"aten.std_mean.default", variance<true, true>},
    {"aten.std_mean.dim", variance<true, true>},
    {"aten.std_mean.correction", variance<true, true>},
    {"aten.logsumexp.default", logsumexp},
    {"aten.special_logsumexp.default", logsumexp},
    {"aten.cumsum.default", running<Op::cumsum>},
    {"aten.cumprod.default", running<Op::cumprod>},
    {"aten.cummax.default", running_extreme<Op::cummax>},
    {"aten.cummin.default", running_extreme<Op::cummin>},
    {"aten.logcumsumexp.default", logcumsumexp},
    {"aten.count_nonzero.default", count_nonzero},
    {"aten.count_nonzero.dim_IntList", count_nonzero},
    {"aten.nansum.default", nansum},
    {"aten.nanmean.default", nanmean},
    {"aten.trace.default", trace},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> reduce_rules() {
  static const std::vector<AtenRule> all = [] {
    const std::span own = kept<kRules>();
    std::vector<AtenRule> rules(own.begin(), own.end());
    for (const auto more : {distance_rules(), order_rules(), loss_rules()})
      rules.insert(rules.end(), more.begin(), more.end());
    return rules;
  }();
  return all;
}

}  // namespace sixfold::aten
