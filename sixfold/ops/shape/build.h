// What the ATen rules of shape and index ops share: reading extents and building the usual nodes.
#pragma once

#include <vector>

#include "sixfold/ops/call.h"

namespace sixfold::aten {

// Every getter of Call records its error; a rule that indexes by what it read looks here first.
inline bool ok(const Call& call) { return call.ok(); }
inline Status stop(Call& call) { return call.results({}); }

// What the file says of output i. Decides only what the arguments leave open: extents over symbols, whose
// relations are in guards that we do not solve.
inline const Dims& expected(const Call& call, size_t i = 0) { return call.output_type(i).dims; }

inline Dim extent(const Call& call, ValueId x, int64_t axis) {
  const Dims& dims = call.dims_of(x);
  return axis >= 0 && axis < static_cast<int64_t>(dims.size()) ? dims[static_cast<size_t>(axis)] : Dim(0);
}

inline ValueId full(Call& call, const Dims& shape, Attr value, DType dtype) {
  return call.op(Op::full, {}, {{"shape", shape}, {"value", std::move(value)}, {"dtype", dtype}});
}
inline ValueId count_up(Call& call, const Dim& length, DType dtype = DType::i64) {  // 0, 1, .., length - 1
  return call.op(Op::arange, {}, {{"start", Dim(0)}, {"step", Dim(1)}, {"length", length}, {"dtype", dtype}});
}
inline ValueId integers(Call& call, const std::vector<int64_t>& values) {
  return call.constant(Tensor::of_ints(values));
}

inline ValueId flatten(Call& call, ValueId x) { return call.reshape(x, {numel(call.dims_of(x))}); }
inline ValueId expand(Call& call, ValueId x, const Dims& shape) {
  if (!ok(call) || call.dims_of(x) == shape) return x;
  return call.op(Op::expand, {x}, {{"shape", shape}});
}
inline ValueId concat(Call& call, const std::vector<ValueId>& xs, int64_t axis) {
  return xs.size() == 1 ? xs[0] : call.op(Op::concat, xs, {{"dim", Dim(axis)}});
}
inline ValueId index_select(Call& call, ValueId x, int64_t axis, ValueId index) {
  return call.op(Op::index_select, {x, index}, {{"dim", Dim(axis)}});
}
// The axes of x in order, with `from` moved to `to`.
inline ValueId move_axis(Call& call, ValueId x, int64_t from, int64_t to) {
  Shape order;
  for (int64_t i = 0; i < call.rank(x); ++i)
    if (i != from) order.push_back(i);
  order.insert(order.begin() + to, from);
  return call.permute(x, order);
}
// torch.atleast_1d, _2d, _3d
inline ValueId at_least(Call& call, ValueId x, int64_t rank) {
  Dims shape = call.dims_of(x);
  if (rank >= 1 && shape.empty()) shape = {Dim(1)};
  if (rank >= 2 && shape.size() == 1) shape.insert(shape.begin(), Dim(1));
  if (rank >= 3 && shape.size() == 2) shape.push_back(Dim(1));
  return call.reshape(x, shape);
}
inline ValueId where(Call& call, ValueId mask, ValueId a, ValueId b) {
  return call.op(Op::where, {mask, a, b});
}

// Normalized bounds of x[start:end:step] along axis, as Python clamps them.
struct Bounds {
  Dim start, end;
  int64_t step = 1;
};
Bounds slice_bounds(Call& call, ValueId x, int64_t axis);  // arguments start, end, step

std::span<const AtenRule> view_rules();
std::span<const AtenRule> split_rules();
std::span<const AtenRule> join_rules();
std::span<const AtenRule> create_rules();
std::span<const AtenRule> diagonal_rules();
std::span<const AtenRule> neighbour_rules();
std::span<const AtenRule> prims_rules();
std::span<const AtenRule> window_rules();

}  // namespace sixfold::aten
