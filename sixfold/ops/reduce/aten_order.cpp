// Order statistics, by sorting: median, kthvalue, mode, quantile.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "sixfold/ops/reduce/rules.h"
#include "sixfold/ops/rule_table.h"

namespace sixfold::aten {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Sorted {
  Expr values, indices;
};

// Rising and stable, NaN last.
Sorted sort(const Expr& x, int64_t dim) {
  Call& call = x.call();
  const auto out = call.op_all(Op::sort, {x}, {{"dim", Dim(dim)}, {"descending", false}});
  return {{call, out[0]}, {call, out[1]}};
}

// Rank 0 as one element, so that every tensor has an axis to sort along.
Expr at_least_1d(const Expr& x) { return x.rank() == 0 ? x.reshape({Dim(1)}) : x; }

// x with extent 1 along dim -> the result's shape.
Expr finish(const Expr& x, int64_t dim, bool keepdim, bool was_scalar) {
  Call& call = x.call();
  if (!call.ok()) return x;
  Dims shape = x.dims();
  if (was_scalar) return x.reshape({});
  if (!keepdim) shape.erase(shape.begin() + dim);
  return x.reshape(shape);
}

Expr pick(const Expr& x, int64_t dim, int64_t place) {
  return {x.call(), x.call().slice(x, dim, place, place + 1)};
}
Expr gather(const Expr& x, int64_t dim, const Expr& index) {
  return x.apply(Op::gather, index, {{"dim", Dim(dim)}});
}

// x sorted along dim, with its extent there; fails on symbolic or (unless allowed) empty extents.
struct Along {
  Expr x;
  int64_t dim, extent;
  bool keepdim, was_scalar;

  explicit Along(Call& call)
      : x(at_least_1d(arg(call, "self"))),
        dim(call.axis("dim", x)),
        extent(1),
        keepdim(call.flag("keepdim")),
        was_scalar(call.rank(call.tensor("self")) == 0) {
    if (!call.ok()) return;
    const Dim d = x.dims()[static_cast<size_t>(dim)];
    if (!d.is_static())
      call.fail(Code::Unsupported, "the extent along dim ", dim, " is ", d, ", and this op needs a number");
    if (d == Dim(0)) call.fail(Code::InvalidModel, "dim ", dim, " of ", x.dims(), " is empty");
    extent = d.value_or(1);
  }
  Status results(const Expr& values, const Expr& indices) const {
    return x.call().results(
        {finish(values, dim, keepdim, was_scalar), finish(indices, dim, keepdim, was_scalar)});
  }
};

Status kthvalue(Call& call) {
  const Along along(call);
  const int64_t k = call.integer("k");
  if (k < 1 || k > along.extent)
    return invalid_model("kthvalue: k is ", k, " of ", along.extent, " elements");
  const Sorted s = sort(along.x, along.dim);
  return along.results(pick(s.values, along.dim, k - 1), pick(s.indices, along.dim, k - 1));
}

// The lower median of x along dim; the first NaN where there is one.
Sorted median_of(const Expr& x, int64_t dim, int64_t extent) {
  const Sorted s = sort(x, dim);
  Sorted out = {pick(s.values, dim, (extent - 1) / 2), pick(s.indices, dim, (extent - 1) / 2)};
  if (!is_float(x.dtype())) return out;
  const Expr has_nan = isnan(pick(s.values, dim, extent - 1));
  const Expr first_nan = x.apply(Op::argmax, {{"dim", Dim(dim)}, {"keepdim", true}});
  return {where(has_nan, kNan, out.values), where(has_nan, first_nan, out.indices)};
}
// The same among what is not NaN: how many those are is known only at run time.
Sorted nanmedian_of(const Expr& x, int64_t dim) {
  Call& call = x.call();
  const Sorted s = sort(x, dim);
  const Expr count = sum(logical_not(isnan(x)).to(DType::i64), {dim}, /*keepdim=*/true);
  const Expr half =
      at_least(count - 1.0, 0.0)
          .apply(Op::div, Expr(call, call.scalar(int64_t{2}, DType::i64)), {{"rounding", "floor"}});
  return {gather(s.values, dim, half), gather(s.indices, dim, half)};
}

template <bool kSkipNan>
Status median(Call& call) {
  const Expr in = arg(call, "self");
  const int64_t count = numel(call.shape(in));
  if (!call.ok()) return call.result(kNoValue);
  if (count == 0) return call.result(in.number(kNan));
  const Expr x = in.reshape({Dim(count)});
  const bool skip = kSkipNan && is_float(x.dtype());
  return call.result((skip ? nanmedian_of(x, 0) : median_of(x, 0, count)).values.reshape({}));
}
template <bool kSkipNan>
Status median_dim(Call& call) {
  const Along along(call);
  const bool skip = kSkipNan && is_float(along.x.dtype());
  const Sorted m = skip ? nanmedian_of(along.x, along.dim) : median_of(along.x, along.dim, along.extent);
  return along.results(m.values, m.indices);
}

// The smallest of the most frequent values, and its last place. In sorted order equal values are a run; its
// end is where the distance from the last change is longest.
Status mode(Call& call) {
  const Along along(call);
  const Sorted s = sort(along.x, along.dim);
  if (!call.ok() || along.extent == 1) return along.results(s.values, s.indices);
  Dims line(s.values.dims().size(), Dim(1));
  line[static_cast<size_t>(along.dim)] = Dim(along.extent);
  const auto part = [&](int64_t from, int64_t to) {
    return Expr(call, call.slice(s.values, along.dim, Dim(from), Dim(to)));
  };
  const Expr place(
      call,
      call.op(Op::arange, {},
              {{"start", Dim(0)}, {"step", Dim(1)}, {"length", Dim(along.extent)}, {"dtype", DType::i64}}));
  const Expr changed = part(1, along.extent).apply(Op::ne, part(0, along.extent - 1)).to(DType::i64);
  Dims first_shape = s.values.dims();
  first_shape[static_cast<size_t>(along.dim)] = Dim(1);
  const Expr zero(call,
                  call.op(Op::full, {}, {{"shape", first_shape}, {"value", Dim(0)}, {"dtype", DType::i64}}));
  const Expr change(call, call.op(Op::concat, {zero, changed}, {{"dim", Dim(along.dim)}}));
  const Expr at = place.reshape(line);
  const Expr start(call, call.op_all(Op::cummax, {change * at}, {{"dim", Dim(along.dim)}})[0]);
  const Expr last = (at - start).apply(Op::argmax, {{"dim", Dim(along.dim)}, {"keepdim", true}});
  return along.results(gather(s.values, along.dim, last), gather(s.indices, along.dim, last));
}

// Between the sorted neighbours of q * (n - 1). q: a number, a 0-d or a 1-d tensor, whose axis comes first.
template <bool kSkipNan>
Status quantile(Call& call) {
  const Expr in = arg(call, "self");
  const bool flat = call.is_none("dim");
  const bool keepdim = call.flag("keepdim");
  const Expr x = flat ? in.reshape({numel(in.dims())}) : at_least_1d(in);
  const int64_t dim = flat ? 0 : call.axis("dim", x);
  const bool scalar_q = !call.is_tensor("q") || call.rank(call.tensor("q")) == 0;
  const Expr q = call.is_tensor("q") ? arg(call, "q") : x.number(call.real("q"));
  const std::string how = call.text("interpolation");
  if (call.rank(q) > 1) return invalid_model("quantile: q has rank ", call.rank(q), ", expected 0 or 1");
  if (!call.ok()) return call.result(kNoValue);

  // The sorted axis goes last; q's values lie along it, and move to the front at the end.
  Shape to_last;
  for (int64_t i = 0; i < x.rank(); ++i)
    if (i != dim) to_last.push_back(i);
  to_last.push_back(dim);
  const Expr moved(call, call.permute(x, to_last));
  const Shape shape = call.shape(moved);
  if (!call.ok()) return call.result(kNoValue);
  const int64_t axis = x.rank() - 1, n = shape.back();
  if (n == 0) return invalid_model("quantile of an empty axis");
  const Sorted s = sort(moved, axis);
  const int64_t points = scalar_q ? 1 : call.shape(q)[0];
  Dims spread(shape.begin(), shape.end() - 1);
  spread.emplace_back(points);
  const Expr valid = sum(logical_not(isnan(moved)).to(DType::i64), {axis}, true).to(x.dtype());
  const Expr last = kSkipNan ? at_least(valid - 1.0, 0.0) : x.number(static_cast<double>(n - 1));
  Expr place = q.reshape({Dim(points)}) * last;
  place = Expr(call, call.op(Op::expand, {place}, {{"shape", spread}}));
  if (!kSkipNan) {  // any NaN sorts last: look there
    const Expr bad = valid.apply(Op::lt, valid.number(static_cast<double>(n)));
    place = where(bad, last, place);
  }
  if (how == "nearest") place = place.apply(Op::round);
  if (how == "lower") place = place.apply(Op::floor);
  if (how == "higher") place = place.apply(Op::ceil);
  const Expr below = place.apply(Op::floor);
  const Expr low = gather(s.values, axis, below.to(DType::i64));
  Expr out = low;
  if (how == "linear" || how == "midpoint") {
    const Expr high = gather(s.values, axis, place.apply(Op::ceil).to(DType::i64));
    out = low + (high - low) * (how == "linear" ? place - below : place.number(0.5));
  }
  // [.., points] -> [points, ..], with the reduced axis back as 1 if kept
  Shape to_first = {axis};
  for (int64_t i = 0; i < axis; ++i) to_first.push_back(i);
  out = Expr(call, call.permute(out, to_first));
  Dims result;
  if (!scalar_q) result.emplace_back(points);
  for (int64_t i = 0; i < in.rank(); ++i) {
    if (flat || i == dim) {
      if (keepdim) result.emplace_back(1);
    } else {
      result.push_back(in.dims()[static_cast<size_t>(i)]);
    }
  }
  return call.result(out.reshape(result));
}

constexpr AtenRule kRules[] = {
    {"aten.kthvalue.default", kthvalue},          {"aten.median.default", median<false>},
    {"aten.median.dim", median_dim<false>},       {"aten.nanmedian.default", median<true>},
    {"aten.nanmedian.dim", median_dim<true>},     {"aten.mode.default", mode},
    {"aten.quantile.default", quantile<false>},   {"aten.quantile.scalar", quantile<false>},
    {"aten.nanquantile.default", quantile<true>}, {"aten.nanquantile.scalar", quantile<true>},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> order_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
