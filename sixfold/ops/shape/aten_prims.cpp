// prims.*: the ops below ATen, which some exporters stop at. Each has a plain twin among the canonical ops.
#include <algorithm>
#include <numeric>

#include "sixfold/ops/rule_table.h"
#include "sixfold/ops/shape/build.h"

namespace sixfold::aten {
namespace {

Status same(Call& call) { return call.result(call.tensor(call.attr("a") ? "a" : "self")); }

Status reshape(Call& call) { return call.result(call.reshape(call.tensor("a"), call.dims("shape"))); }

// Axes start to end become one.
Status collapse(Call& call) {
  const ValueId x = call.tensor("a");
  if (ok(call) && call.rank(x) == 0) return call.result(call.reshape(x, {Dim(1)}));
  const int64_t start = call.axis("start", x), end = call.axis("end", x);
  if (!ok(call)) return stop(call);
  if (start > end) return invalid_model("collapse from axis ", start, " to axis ", end);
  const Dims& dims = call.dims_of(x);
  Dims shape(dims.begin(), dims.begin() + start);
  shape.push_back(numel(Dims(dims.begin() + start, dims.begin() + end + 1)));
  shape.insert(shape.end(), dims.begin() + end + 1, dims.end());
  return call.result(call.reshape(x, shape));
}
Status split_dim(Call& call) {
  const ValueId x = call.tensor("a");
  const int64_t axis = call.axis("dim", x);
  const Dim outer = call.dim("outer_length");
  if (!ok(call) || call.rank(x) == 0) return invalid_model("split_dim of a scalar");
  if (outer.value_or(1) < 1) return invalid_model("split_dim into ", outer, " parts");
  Dims shape = call.dims_of(x);
  Dim& split = shape[static_cast<size_t>(axis)];
  if (split.is_static() && outer.is_static() && split.value() % outer.value() != 0)
    return invalid_model("split_dim of ", split, " into ", outer, " parts");
  const Dim inner = floordiv(split, outer);
  split = outer;
  shape.insert(shape.begin() + axis + 1, inner);
  return call.result(call.reshape(x, shape));
}
Status squeeze(Call& call) {
  const ValueId x = call.tensor("a");
  Shape axes = call.ints("dimensions");
  for (int64_t& a : axes) a = call.normalize(a, x);
  if (!ok(call)) return stop(call);
  Dims shape;
  for (int64_t i = 0; i < call.rank(x); ++i) {
    const bool named = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (!named || !(extent(call, x, i) == Dim(1))) shape.push_back(extent(call, x, i));
  }
  return call.result(call.reshape(x, shape));
}
Status transpose(Call& call) {
  const ValueId x = call.tensor("a");
  Shape order = call.ints("permutation");
  for (int64_t& d : order) d = call.normalize(d, x);
  return call.result(order.empty() ? x : call.permute(x, order));
}
Status rev(Call& call) {
  const ValueId x = call.tensor("a");
  Shape axes = call.ints("dims");
  for (int64_t& a : axes) a = call.normalize(a, x);
  return call.result(axes.empty() ? x : call.op(Op::flip, {x}, {{"dims", to_dims(axes)}}));
}

// Axis i of the operand becomes axis broadcast_dimensions[i] of the result.
Status broadcast_in_dim(Call& call) {
  const ValueId x = call.tensor("a");
  const Dims shape = call.dims("shape");
  const Shape axes = call.ints("broadcast_dimensions");
  if (!ok(call)) return stop(call);
  if (static_cast<int64_t>(axes.size()) != call.rank(x))
    return invalid_model("broadcast_in_dim of rank ", call.rank(x), " to ", axes.size(), " axes");
  Dims placed(shape.size(), Dim(1));
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= static_cast<int64_t>(shape.size()) || (i > 0 && axes[i] <= axes[i - 1]))
      return invalid_model("broadcast_in_dim to axes ", axes, " of ", shape);
    placed[static_cast<size_t>(axes[i])] = extent(call, x, static_cast<int64_t>(i));
  }
  return call.result(expand(call, call.reshape(x, placed), shape));
}

Status iota(Call& call) {
  const DType dtype = call.dtype("dtype").value_or(DType::i64);
  const ValueId counted = call.op(Op::arange, {},
                                  {{"start", Dim(call.integer("start"))},
                                   {"step", Dim(call.integer("step"))},
                                   {"length", call.dim("length")},
                                   {"dtype", DType::i64}});
  return call.result(call.to(counted, dtype));
}

// Unlike ATen's, no change of dtype unless asked for; all axes without dims.
template <Op op>
Status reduce(Call& call) {
  ValueId x = call.tensor("inp");
  const Shape axes = call.axes("dims", x);
  x = call.to(x, call.dtype("output_dtype").value_or(call.dtype_of(x)));
  if (!ok(call) || axes.empty()) return call.result(x);
  Attrs attrs{{"dims", to_dims(axes)}, {"keepdim", false}};
  if (op == Op::var) attrs.set("correction", call.real_or("correction", 1));
  return call.result(call.op(op, {x}, std::move(attrs)));
}

Status fma(Call& call) {
  const ValueId product = call.op(Op::mul, {call.tensor("a"), call.tensor("b")});
  return call.result(call.op(Op::add, {product, call.tensor("c")}));
}

constexpr AtenRule kRules[] = {
    {"prims.reshape.default", reshape},
    {"prims.collapse.default", collapse},
    {"prims.collapse_view.default", collapse},
    {"prims.split_dim.default", split_dim},
    {"prims.squeeze.default", squeeze},
    {"prims.transpose.default", transpose},
    {"prims.rev.default", rev},
    {"prims.broadcast_in_dim.default", broadcast_in_dim},
    {"prims.iota.default", iota},
    {"prims.clone.default", same},
    {"prims.conj.default", same},
    {"prims.conj_physical.default", same},
    {"prims.real.default", same},
    {"prims.copy_strided.default", same},
    {"prims.sum.default", reduce<Op::sum>},
    {"prims.prod.default", reduce<Op::prod>},
    {"prims.amax.default", reduce<Op::amax>},
    {"prims.amin.default", reduce<Op::amin>},
    {"prims.var.default", reduce<Op::var>},
    {"prims.fma.default", fma},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> prims_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
