// Views: the same elements under another shape. All are reshape, expand or permute, or nothing at all.
#include <algorithm>
#include <numeric>

#include "sixfold/ops/rule_table.h"
#include "sixfold/ops/shape/build.h"

namespace sixfold::aten {
namespace {

Status same(Call& call) { return call.result(call.tensor("self")); }

// Sizes with at most one -1 replaced so that `total` elements fit; `guess` is the file's word for that
// extent.
Dims resolve_sizes(Call& call, Dims sizes, const Dim& total, const Dim& guess) {
  Dim known(1);
  size_t open = sizes.size();
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == Dim(-1)) {
      if (open != sizes.size()) call.fail(Code::InvalidModel, "shape ", sizes, " has more than one -1");
      open = i;
    } else {
      known *= sizes[i];
    }
  }
  if (open == sizes.size()) return sizes;
  if (!total.is_static() || !known.is_static())
    sizes[open] = guess;
  else if (known.value() > 0 && total.value() % known.value() == 0)
    sizes[open] = Dim(total.value() / known.value());
  else if (known.value() == 0 && total.value() == 0)
    sizes[open] = guess;
  else
    call.fail(Code::InvalidModel, "shape ", sizes, " does not divide ", total, " elements");
  return sizes;
}

Status view_to(Call& call, std::string_view argument) {
  const ValueId x = call.tensor("self");
  const Dims sizes = call.dims(argument);
  Dim guess(0);
  const Dims& out = expected(call);
  for (size_t i = 0; i < sizes.size() && i < out.size(); ++i)
    if (sizes[i] == Dim(-1)) guess = out[i];
  return call.result(call.reshape(x, resolve_sizes(call, sizes, numel(call.dims_of(x)), guess)));
}
Status view(Call& call) { return view_to(call, "size"); }
Status reshape(Call& call) { return view_to(call, "shape"); }
Status view_as(Call& call) {
  return call.result(call.reshape(call.tensor("self"), call.dims_of(call.tensor("other"))));
}

Status view_dtype(Call& call) {
  const ValueId x = call.tensor(call.attr("self") ? "self" : "a");
  const auto dtype = call.dtype("dtype");
  if (!dtype || dtype == call.dtype_of(x)) return call.result(x);
  return call.result(call.op(Op::bitcast, {x}, {{"dtype", *dtype}}));
}

Status flatten(Call& call) {
  const ValueId x = call.tensor("self");
  const int64_t start = call.axis("start_dim", x), end = call.axis("end_dim", x);
  const Dims& dims = call.dims_of(x);
  if (!ok(call)) return stop(call);
  if (dims.empty()) return call.result(call.reshape(x, {Dim(1)}));
  if (start > end) return invalid_model("flatten from axis ", start, " to axis ", end);
  Dims shape(dims.begin(), dims.begin() + start);
  shape.push_back(numel(Dims(dims.begin() + start, dims.begin() + end + 1)));
  shape.insert(shape.end(), dims.begin() + end + 1, dims.end());
  return call.result(call.reshape(x, shape));
}

Status ravel(Call& call) { return call.result(aten::flatten(call, call.tensor("self"))); }

// Sums away what broadcasting to the size would repeat.
Status sum_to_size(Call& call) {
  ValueId x = call.tensor("self");
  const Dims size = call.dims("size"), dims = call.dims_of(x);
  if (size.size() > dims.size()) return invalid_model("sum_to_size of ", dims, " to ", size);
  Dims axes;
  const size_t lead = dims.size() - size.size();
  for (size_t i = 0; i < dims.size(); ++i)
    if (i < lead || (size[i - lead] == Dim(1) && !(dims[i] == Dim(1))))
      axes.push_back(Dim(static_cast<int64_t>(i)));
  x = call.to(x, call.output_type().dtype);  // sums of bools and small integers are i64
  if (!axes.empty()) x = call.op(Op::sum, {x}, {{"dims", axes}, {"keepdim", true}});
  return call.result(call.reshape(x, size));
}

Status unflatten(Call& call) {
  const ValueId x = call.tensor("self");
  const int64_t axis = call.axis("dim", x);
  Dims sizes = call.dims("sizes");
  if (!ok(call)) return stop(call);
  Dim guess(0);
  const Dims& out = expected(call);
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] == Dim(-1) && static_cast<size_t>(axis) + i < out.size())
      guess = out[static_cast<size_t>(axis) + i];
  sizes = resolve_sizes(call, sizes, extent(call, x, axis), guess);
  Dims shape = call.dims_of(x);
  if (shape.empty()) return invalid_model("unflatten of a scalar");
  shape.erase(shape.begin() + axis);
  shape.insert(shape.begin() + axis, sizes.begin(), sizes.end());
  return call.result(call.reshape(x, shape));
}

Status squeeze_axes(Call& call, const Shape& axes) {
  const ValueId x = call.tensor("self");
  if (!ok(call)) return stop(call);
  const Dims& dims = call.dims_of(x);
  Dims shape;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool named = std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end();
    if (!named || !(dims[i] == Dim(1))) shape.push_back(dims[i]);
  }
  return call.result(call.reshape(x, shape));
}
Status squeeze(Call& call) {
  Shape all(call.type(call.tensor("self")).rank());
  std::iota(all.begin(), all.end(), 0);
  return squeeze_axes(call, all);
}
Status squeeze_dim(Call& call) { return squeeze_axes(call, {call.axis("dim", call.tensor("self"))}); }
Status squeeze_dims(Call& call) {
  Shape axes = call.ints("dim");
  for (int64_t& a : axes) a = call.normalize(a, call.tensor("self"));
  return squeeze_axes(call, axes);
}

Status unsqueeze(Call& call) {
  const ValueId x = call.tensor("self");
  auto axis = normalize_axis(call.integer("dim"), call.type(x).rank() + 1);
  if (!axis.ok()) return axis.take_error();
  if (!ok(call)) return stop(call);
  return call.result(call.unsqueeze(x, *axis));
}

Status expand_to(Call& call, Dims shape) {
  const ValueId x = call.tensor("self");
  const Dims& dims = call.dims_of(x);
  if (shape.size() < dims.size()) return invalid_model("expand from ", dims, " to ", shape);
  for (size_t i = 0; i < dims.size(); ++i) {
    Dim& d = shape[shape.size() - dims.size() + i];
    if (d == Dim(-1)) d = dims[i];
  }
  return call.result(expand(call, x, shape));
}
Status expand_rule(Call& call) { return expand_to(call, call.dims("size")); }
Status expand_as(Call& call) { return expand_to(call, call.dims_of(call.tensor("other"))); }

Status permute(Call& call) {
  const ValueId x = call.tensor("self");
  Shape dims = call.ints("dims");
  for (int64_t& d : dims) d = call.normalize(d, x);
  if (call.rank(x) == 0) return call.result(x);
  return call.result(dims.empty() ? x : call.permute(x, dims));
}

Status swap(Call& call, int64_t a, int64_t b) {
  const ValueId x = call.tensor("self");
  a = call.normalize(a, x);
  b = call.normalize(b, x);
  Shape dims(call.type(x).rank());
  std::iota(dims.begin(), dims.end(), 0);
  if (!ok(call) || dims.empty()) return call.result(x);
  std::swap(dims[static_cast<size_t>(a)], dims[static_cast<size_t>(b)]);
  return call.result(call.permute(x, dims));
}
Status transpose(Call& call) { return swap(call, call.integer("dim0"), call.integer("dim1")); }
Status swapaxes(Call& call) { return swap(call, call.integer("axis0"), call.integer("axis1")); }
Status matrix_transpose(Call& call) {
  return call.rank(call.tensor("self")) < 2 ? same(call) : swap(call, -2, -1);
}
Status reverse_axes(Call& call) {
  Shape dims(call.type(call.tensor("self")).rank());
  std::iota(dims.rbegin(), dims.rend(), 0);
  return call.result(call.permute(call.tensor("self"), dims));
}

Status movedim(Call& call) {
  const ValueId x = call.tensor("self");
  Shape from = call.ints("source"), to = call.ints("destination");
  for (int64_t& a : from) a = call.normalize(a, x);
  for (int64_t& a : to) a = call.normalize(a, x);
  if (from.size() != to.size()) return invalid_model("movedim from ", from, " to ", to);
  if (!ok(call) || call.rank(x) == 0) return call.result(x);
  Shape dims(call.type(x).rank(), -1), rest;
  for (size_t i = 0; i < from.size(); ++i) dims[static_cast<size_t>(to[i])] = from[i];
  for (int64_t i = 0; i < call.rank(x); ++i)
    if (std::find(from.begin(), from.end(), i) == from.end()) rest.push_back(i);
  size_t next = 0;
  for (int64_t& d : dims)
    if (d < 0 && next < rest.size()) d = rest[next++];
  return call.result(call.permute(x, dims));
}

template <int64_t kRank>
Status atleast(Call& call) {
  return call.result(at_least(call, call.tensor("self"), kRank));
}
template <int64_t kRank>
Status atleast_each(Call& call) {
  std::vector<ValueId> out;
  for (const ValueId x : call.tensors("tensors")) out.push_back(at_least(call, x, kRank));
  return call.results(out);
}

Status broadcast_tensors(Call& call) {
  const std::vector<ValueId> xs = call.tensors("tensors");
  std::vector<ValueId> out;
  if (xs.size() != call.output_count()) return invalid_model("broadcast_tensors of ", xs.size(), " tensors");
  for (size_t i = 0; i < xs.size(); ++i) out.push_back(expand(call, xs[i], expected(call, i)));
  return call.results(out);
}

constexpr AtenRule kRules[] = {
    {"aten.alias.default", same},
    {"aten.alias_copy.default", same},
    {"aten.clone.default", same},
    {"aten.contiguous.default", same},
    {"aten.detach.default", same},
    {"aten.detach_copy.default", same},
    {"aten.lift.default", same},
    {"aten.lift_fresh.default", same},
    {"aten.lift_fresh_copy.default", same},
    {"aten.resolve_conj.default", same},
    {"aten.resolve_neg.default", same},
    {"aten._conj.default", same},
    {"aten._conj_copy.default", same},
    {"aten._conj_physical.default", same},
    {"aten.real.default", same},
    {"dim_order_ops._clone_dim_order.default", same},
    {"aten.view.default", view},
    {"aten.view_copy.default", view},
    {"aten._unsafe_view.default", view},
    {"aten._reshape_alias.default", view},
    {"aten._reshape_alias_copy.default", view},
    {"aten._reshape_copy.default", view},
    {"aten.reshape.default", reshape},
    {"aten.view_as.default", view_as},
    {"aten.reshape_as.default", view_as},
    {"aten.view.dtype", view_dtype},
    {"aten.view_copy.dtype", view_dtype},
    {"prims.view_of_dtype.default", view_dtype},
    {"aten.flatten.using_ints", flatten},
    {"aten.ravel.default", ravel},
    {"aten.sum_to_size.default", sum_to_size},
    {"aten.unflatten.int", unflatten},
    {"aten.squeeze.default", squeeze},
    {"aten.squeeze_copy.default", squeeze},
    {"aten.squeeze.dim", squeeze_dim},
    {"aten.squeeze_copy.dim", squeeze_dim},
    {"aten.squeeze.dims", squeeze_dims},
    {"aten.squeeze_copy.dims", squeeze_dims},
    {"aten.unsqueeze.default", unsqueeze},
    {"aten.unsqueeze_copy.default", unsqueeze},
    {"aten.expand.default", expand_rule},
    {"aten.expand_copy.default", expand_rule},
    {"aten.broadcast_to.default", expand_rule},
    {"aten.expand_as.default", expand_as},
    {"aten.broadcast_tensors.default", broadcast_tensors},
    {"aten.permute.default", permute},
    {"aten.permute_copy.default", permute},
    {"aten.transpose.int", transpose},
    {"aten.transpose_copy.int", transpose},
    {"aten.swapdims.default", transpose},
    {"aten.swapaxes.default", swapaxes},
    {"aten.t.default", matrix_transpose},
    {"aten.t_copy.default", matrix_transpose},
    {"aten.mT.default", matrix_transpose},
    {"aten.mH.default", matrix_transpose},
    {"aten.adjoint.default", matrix_transpose},
    {"aten.matrix_H.default", matrix_transpose},
    {"aten.numpy_T.default", reverse_axes},
    {"aten.movedim.int", movedim},
    {"aten.movedim.intlist", movedim},
    {"aten.moveaxis.int", movedim},
    {"aten.moveaxis.intlist", movedim},
    {"aten.atleast_1d.default", atleast<1>},
    {"aten.atleast_2d.default", atleast<2>},
    {"aten.atleast_3d.default", atleast<3>},
    {"aten.atleast_1d.Sequence", atleast_each<1>},
    {"aten.atleast_2d.Sequence", atleast_each<2>},
    {"aten.atleast_3d.Sequence", atleast_each<3>},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> view_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
