// Writing by index: scatter, index_put, slice_scatter and their kin.
#include <algorithm>
#include <cmath>

#include "sixfold/ops/expr.h"
#include "sixfold/ops/index/build.h"
#include "sixfold/ops/rule_table.h"
#include "sixfold/ops/shapes.h"

namespace sixfold::aten {
namespace {

Status scatter_by(Call& call, ValueId src, const char* reduce, bool include_self) {
  const ValueId x = call.tensor("self"), index = call.tensor("index");
  const int64_t axis = call.axis("dim", x);
  if (!ok(call)) return stop(call);
  if (numel(call.dims_of(index)) == Dim(0)) return call.result(x);
  const ValueId out = call.op(Op::scatter,
                              {at_least(call, x, 1), as_index(call, at_least(call, index, 1)),
                               at_least(call, call.to(src, call.dtype_of(x)), 1)},
                              {{"dim", Dim(axis)}, {"reduce", reduce}, {"include_self", include_self}});
  return call.result(call.reshape(out, call.dims_of(x)));
}
ValueId value_like_index(Call& call) {
  const ValueId value = call.tensor_or_scalar("value", call.dtype_of(call.tensor("self")));
  return expand(call, value, call.dims_of(call.tensor("index")));
}
// torch has several vocabularies of reductions.
const char* reduction(Call& call) {
  static constexpr std::pair<std::string_view, const char*> kNames[] = {
      {"add", "add"},   {"sum", "add"},   {"multiply", "mul"}, {"prod", "mul"},
      {"mean", "mean"}, {"amax", "amax"}, {"amin", "amin"}};
  const std::string name = call.text("reduce");
  for (const auto& [theirs, ours] : kNames)
    if (theirs == name) return ours;
  call.fail(Code::InvalidModel, "no reduction '", name, "'");
  return "none";
}
Status scatter_src(Call& call) { return scatter_by(call, call.tensor("src"), "none", true); }
Status scatter_value(Call& call) { return scatter_by(call, value_like_index(call), "none", true); }
Status scatter_src_reduce(Call& call) { return scatter_by(call, call.tensor("src"), reduction(call), true); }
Status scatter_value_reduce(Call& call) {
  return scatter_by(call, value_like_index(call), reduction(call), true);
}
Status scatter_add(Call& call) { return scatter_by(call, call.tensor("src"), "add", true); }
Status scatter_reduce(Call& call) {
  return scatter_by(call, call.tensor("src"), reduction(call), call.flag("include_self"));
}

ValueId put(Call& call, ValueId x, ValueId values, const AdvancedIndex& at, bool accumulate) {
  std::vector<ValueId> operands{x, call.to(values, call.dtype_of(x))};
  operands.insert(operands.end(), at.indices.begin(), at.indices.end());
  return call.op(Op::index_put, operands, {{"dims", to_dims(at.dims)}, {"accumulate", accumulate}});
}

// Values of the true elements, listed along an axis, each at the element of the flat mask that takes it.
ValueId spread_over_mask(Call& call, ValueId values, int64_t axis, ValueId mask) {
  const ValueId truth = call.to(call.to(flatten(call, mask), DType::boolean), DType::i64);
  const ValueId count = call.op(Op::cumsum, {truth}, {{"dim", Dim(0)}});
  const ValueId number = call.op(Op::sub, {count, call.scalar(int64_t{1}, DType::i64)});
  return index_select(call, values, axis, call.op(Op::clamp, {number}, {{"min", Dim(0)}, {"max", Attr()}}));
}

// x[.., mask, ..] = values: a choice, whatever the mask.
Status put_where(Call& call, ValueId x, ValueId values, const MaskIndex& at, bool accumulate) {
  const int64_t mask_rank = call.rank(at.mask), behind = call.rank(x) - at.axis - mask_rank;
  Dims mask = call.dims_of(at.mask), value = call.dims_of(values);
  mask.insert(mask.end(), static_cast<size_t>(behind), Dim(1));
  // The true elements are one axis of the region; a value that has this axis must have it once.
  const int64_t spot = static_cast<int64_t>(value.size()) - behind - 1;
  if (spot >= 0) {
    const bool one_for_all = value[static_cast<size_t>(spot)] == Dim(1);
    if (value[static_cast<size_t>(spot)] == Dim(0)) return call.result(x);
    if (!one_for_all) values = spread_over_mask(call, values, spot, at.mask);
    const Dims places = one_for_all ? Dims(static_cast<size_t>(mask_rank), Dim(1)) : call.dims_of(at.mask);
    value.erase(value.begin() + spot);
    value.insert(value.begin() + spot, places.begin(), places.end());
  }
  const DType dtype = call.dtype_of(x);
  const ValueId condition = call.to(call.reshape(at.mask, mask), DType::boolean);
  const ValueId chosen = call.reshape(call.to(values, dtype), value);
  if (!accumulate) return call.result(where(call, condition, chosen, x));
  return call.result(call.op(Op::add, {x, where(call, condition, chosen, call.scalar(int64_t{0}, dtype))}));
}

Status index_put(Call& call) {
  const ValueId x = call.tensor("self");
  const ValueId values = call.tensor_or_scalar("values", call.dtype_of(x));
  const bool accumulate = call.flag("accumulate");
  AdvancedIndex at;
  std::optional<MaskIndex> mask;
  if (!read_indices(call, x, at, mask)) return stop(call);
  if (mask) return put_where(call, x, values, *mask, accumulate);
  if (at.dims.empty()) {
    const ValueId all = expand(call, call.to(values, call.dtype_of(x)), call.dims_of(x));
    return call.result(accumulate ? call.op(Op::add, {x, all}) : all);
  }
  return call.result(put(call, x, values, at, accumulate));
}

// Values where the mask is false are zero; indices there may be anything.
Status masked_index_put(Call& call) {
  const ValueId x = call.tensor("self");
  const ValueId kept =
      where(call, call.tensor("mask"), call.tensor("values"), call.scalar(int64_t{0}, call.dtype_of(x)));
  AdvancedIndex at;
  std::optional<MaskIndex> mask;
  if (!read_indices(call, x, at, mask)) return stop(call);
  if (mask || !clamp_indices(call, x, at))
    return call.unsupported("its indices are a mask or its shape is symbolic");
  return call.result(put(call, x, kept, at, /*accumulate=*/true));
}

// Rows that are looked up are scaled to a norm of at most max_norm.
Status embedding_renorm(Call& call) {
  const Expr weight(call, call.tensor("self"));
  const double most = call.real("max_norm"), p = call.real("norm_type");
  if (!ok(call)) return stop(call);
  if (weight.rank() != 2 || !(p > 0)) return call.unsupported("weights of this rank or norm");
  const DType dtype = weight.dtype();
  const Expr wide = weight.to(compute_type(dtype));
  Expr norm = reduce(Op::amax, abs(wide), {1}, true);
  if (!std::isinf(p)) norm = pow(sum(pow(abs(wide), p), {1}, true), 1.0 / p);
  norm = norm.to(dtype).to(wide.dtype());
  const Dims rows{weight.dims()[0]};
  const ValueId index = as_index(call, flatten(call, call.tensor("indices")));
  const ValueId named = put(call, full(call, rows, Attr(false), DType::boolean),
                            call.scalar(int64_t{1}, DType::boolean), {{0}, {index}}, false);
  const Expr exceeds = norm.number(most).less(norm);
  const Expr scaled = (wide * (norm.number(most) / (norm + 1e-7))).to(dtype);
  return call.result(
      where(Expr(call, call.unsqueeze(named, 1)).apply(Op::logical_and, exceeds), scaled, weight));
}

// Rows along one axis: index_copy, index_add, index_fill.
Status put_rows(Call& call, ValueId values, bool accumulate) {
  const ValueId self = call.tensor("self");
  const int64_t axis = call.axis("dim", self);
  if (!ok(call)) return stop(call);
  const ValueId index = as_index(call, flatten(call, call.tensor("index")));
  const ValueId out = put(call, at_least(call, self, 1), values, {{axis}, {index}}, accumulate);
  return call.result(call.reshape(out, call.dims_of(self)));
}
// A source of one row may lack the axis.
ValueId source_rows(Call& call) {
  const ValueId self = call.tensor("self"), source = call.tensor("source");
  const int64_t axis = call.axis("dim", self);
  if (!ok(call) || call.rank(source) == call.rank(self)) return at_least(call, source, 1);
  return call.rank(source) + 1 == call.rank(self) ? call.unsqueeze(source, axis) : at_least(call, source, 1);
}
Status index_copy(Call& call) { return put_rows(call, source_rows(call), false); }
Status index_add(Call& call) {
  ValueId source = source_rows(call);
  const DType dtype = call.dtype_of(source);
  if (call.real("alpha") != 1.0) source = call.op(Op::mul, {source, call.tensor_or_scalar("alpha", dtype)});
  return put_rows(call, source, true);
}
Status index_fill(Call& call) {
  return put_rows(call, call.tensor_or_scalar("value", call.dtype_of(call.tensor("self"))), false);
}
Status index_reduce(Call& call) {
  const ValueId self = call.tensor("self");
  const int64_t axis = call.axis("dim", self);
  const char* reduce = reduction(call);
  const ValueId source = source_rows(call), x = at_least(call, self, 1);
  if (!ok(call)) return stop(call);
  Dims line(call.dims_of(source).size(), Dim(1));
  if (line.size() != call.type(x).rank())
    return invalid_model("index_reduce of ", call.type(source), " into ", call.type(x));
  line[static_cast<size_t>(axis)] = extent(call, source, axis);
  const ValueId index = call.reshape(as_index(call, call.tensor("index")), line);
  const ValueId out = call.op(
      Op::scatter, {x, expand(call, index, Dims(call.dims_of(source))), call.to(source, call.dtype_of(x))},
      {{"dim", Dim(axis)}, {"reduce", reduce}, {"include_self", call.flag("include_self")}});
  return call.result(call.reshape(out, call.dims_of(self)));
}

Status put_flat(Call& call) {
  const ValueId x = call.tensor("self");
  const ValueId out =
      put(call, flatten(call, x), flatten(call, call.tensor("source")),
          {{0}, {as_index(call, flatten(call, call.tensor("index")))}}, call.flag("accumulate"));
  return call.result(call.reshape(out, call.dims_of(x)));
}

Status slice_scatter(Call& call) {
  const ValueId x = call.tensor("self"), src = call.tensor("src");
  const int64_t axis = call.axis("dim", x);
  if (!ok(call)) return stop(call);
  Bounds b = slice_bounds(call, x, axis);
  const Dim length = extent(call, src, axis);
  const bool open = !b.start.is_static() || !b.end.is_static() || !extent(call, x, axis).is_static();
  if (open && b.step == 1) b.end = b.start + length;  // guards say that the source fits
  if (b.step == 1 && b.start == Dim(0) && b.end == extent(call, x, axis))
    return call.result(expand(call, call.to(src, call.dtype_of(x)), call.dims_of(x)));
  return call.result(
      call.op(Op::slice_scatter, {x, call.to(src, call.dtype_of(x))},
              {{"dim", Dim(axis)}, {"start", b.start}, {"end", b.end}, {"step", Dim(b.step)}}));
}
Status select_scatter(Call& call) {
  const ValueId x = call.tensor("self"), src = call.tensor("src");
  const int64_t axis = call.axis("dim", x);
  Dim index = call.dim("index");
  if (!ok(call)) return stop(call);
  if (index.value_or(0) < 0) index = extent(call, x, axis) + index;
  if (call.rank(src) + 1 != call.rank(x))
    return invalid_model("select_scatter of ", call.type(src), " into ", call.type(x));
  return call.result(
      call.op(Op::slice_scatter, {x, call.unsqueeze(call.to(src, call.dtype_of(x)), axis)},
              {{"dim", Dim(axis)}, {"start", index}, {"end", index + Dim(1)}, {"step", Dim(1)}}));
}

// The k-th true element takes the k-th element of source: its number is a running count of the mask.
Status masked_scatter(Call& call) {
  ValueId x = call.tensor("self"), mask = call.to(call.tensor("mask"), DType::boolean);
  const ValueId source = flatten(call, call.to(call.tensor("source"), call.dtype_of(x)));
  auto joint = broadcast(call.dims_of(x), call.dims_of(mask));
  if (!joint.ok()) return joint.take_error();
  x = expand(call, x, *joint);
  const Dim available = extent(call, source, 0);
  if (!available.is_static()) return call.unsupported("it needs static shapes");
  if (available.value() == 0) return call.result(x);
  mask = expand(call, mask, *joint);
  const ValueId count = call.op(Op::cumsum, {call.to(flatten(call, mask), DType::i64)}, {{"dim", Dim(0)}});
  const ValueId number = call.op(Op::clamp, {call.op(Op::sub, {count, call.scalar(1.0, DType::i64)})},
                                 {{"min", Dim(0)}, {"max", available - Dim(1)}});
  const ValueId chosen = call.reshape(index_select(call, source, 0, number), *joint);
  return call.result(where(call, mask, chosen, x));
}

constexpr AtenRule kRules[] = {
    {"aten.scatter.src", scatter_src},
    {"aten.scatter.value", scatter_value},
    {"aten.scatter.reduce", scatter_src_reduce},
    {"aten.scatter.value_reduce", scatter_value_reduce},
    {"aten.scatter_add.default", scatter_add},
    {"aten.scatter_reduce.two", scatter_reduce},
    {"aten.index_put.default", index_put},
    {"aten._unsafe_index_put.default", index_put},
    {"aten._index_put_impl.default", index_put},
    {"aten._unsafe_masked_index_put_accumulate.default", masked_index_put},
    {"aten.embedding_renorm.default", embedding_renorm},
    {"aten.index_copy.default", index_copy},
    {"aten.index_add.default", index_add},
    {"aten.index_fill.int_Scalar", index_fill},
    {"aten.index_fill.int_Tensor", index_fill},
    {"aten.index_reduce.default", index_reduce},
    {"aten.put.default", put_flat},
    {"aten.slice_scatter.default", slice_scatter},
    {"aten.select_scatter.default", select_scatter},
    {"aten.masked_scatter.default", masked_scatter},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> put_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
