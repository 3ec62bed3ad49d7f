// Reading by index: gather, index, embedding and their kin.
#include <algorithm>

#include "sixfold/ops/index/build.h"
#include "sixfold/ops/rule_table.h"
#include "sixfold/ops/shapes.h"

namespace sixfold::aten {
namespace {

Status gather(Call& call) {
  const ValueId x = call.tensor("self"), index = call.tensor("index");
  const int64_t axis = call.axis("dim", x);
  const Dims shape = call.dims_of(index);
  if (numel(shape) == Dim(0)) return call.result(full(call, shape, Attr(Dim(0)), call.dtype_of(x)));
  const ValueId out = call.op(Op::gather, {at_least(call, x, 1), as_index(call, at_least(call, index, 1))},
                              {{"dim", Dim(axis)}});
  return call.result(call.reshape(out, shape));
}

Status index_select_rule(Call& call) {
  const ValueId x = call.tensor("self"), index = call.tensor("index");
  const int64_t axis = call.axis("dim", x);
  const ValueId out =
      index_select(call, at_least(call, x, 1), axis, as_index(call, at_least(call, index, 1)));
  return call.result(call.rank(x) == 0 ? call.reshape(out, {}) : out);
}

Status take(Call& call) {
  const ValueId x = call.tensor("self"), index = call.tensor("index");
  const ValueId out = index_select(call, flatten(call, x), 0, as_index(call, flatten(call, index)));
  return call.result(call.reshape(out, call.dims_of(index)));
}

Status take_along_dim(Call& call) {
  ValueId x = call.tensor("self"), index = as_index(call, call.tensor("indices"));
  if (call.is_none("dim")) {
    const ValueId out = call.op(Op::gather, {flatten(call, x), flatten(call, index)}, {{"dim", Dim(0)}});
    return call.result(out);
  }
  const int64_t axis = call.axis("dim", x);
  if (!ok(call)) return stop(call);
  Dims a = call.dims_of(x), b = call.dims_of(index);
  if (a.size() != b.size() || a.empty()) return invalid_model("take_along_dim of ", a, " by ", b);
  const auto at = static_cast<size_t>(axis);
  const Dim length = a[at], count = b[at];
  a[at] = b[at] = Dim(1);
  auto joint = broadcast(a, b);
  if (!joint.ok()) return joint.take_error();
  Dims x_shape = *joint, index_shape = *joint;
  x_shape[at] = length;
  index_shape[at] = count;
  return call.result(call.op(Op::gather, {expand(call, x, x_shape), expand(call, index, index_shape)},
                             {{"dim", Dim(axis)}}));
}

Status embedding(Call& call) {
  return call.result(call.op(Op::embedding, {call.tensor("weight"), as_index(call, call.tensor("indices"))}));
}

ValueId take_indexed(Call& call, ValueId x, const AdvancedIndex& at) {
  if (at.dims.empty()) return x;
  if (at.dims.size() > 1) {
    std::vector<ValueId> operands{x};
    operands.insert(operands.end(), at.indices.begin(), at.indices.end());
    return call.op(Op::index, operands, {{"dims", to_dims(at.dims)}});
  }
  // One index: a selection along its axis, in whose place the index's axes stand.
  Dims shape = call.dims_of(x);
  const Dims inner = call.dims_of(at.indices[0]);
  if (inner.size() == 1) return index_select(call, x, at.dims[0], at.indices[0]);
  shape.erase(shape.begin() + at.dims[0]);
  shape.insert(shape.begin() + at.dims[0], inner.begin(), inner.end());
  return call.reshape(index_select(call, x, at.dims[0], flatten(call, at.indices[0])), shape);
}

Status index(Call& call) {
  const ValueId x = call.tensor("self");
  AdvancedIndex at;
  std::optional<MaskIndex> mask;
  if (!read_indices(call, x, at, mask)) return stop(call);
  if (mask) return call.unsupported("output shape depends on data: the mask is not constant");
  return call.result(take_indexed(call, x, at));
}

// fill where the mask is false; indices there may be anything.
Status masked_index(Call& call) {
  const ValueId x = call.tensor("self"), mask = call.tensor("mask");
  AdvancedIndex at;
  std::optional<MaskIndex> other;
  if (!read_indices(call, x, at, other)) return stop(call);
  if (other) return call.unsupported("output shape depends on data: the mask is not constant");
  if (!clamp_indices(call, x, at)) return call.unsupported("its shape is symbolic or empty");
  const ValueId fill = call.tensor_or_scalar("fill", call.dtype_of(x));
  return call.result(where(call, mask, take_indexed(call, x, at), fill));
}

// Rows of weight added up by bag. Bag of index i: how many offsets are at most i.
Status embedding_bag(Call& call) {
  const ValueId weight = call.tensor("weight"), indices = as_index(call, call.tensor("indices"));
  const ValueId offsets = as_index(call, call.tensor("offsets"));
  const int64_t mode = call.integer("mode");
  const DType dtype = call.dtype_of(weight);
  if (!ok(call)) return stop(call);
  if (call.rank(weight) != 2 || call.rank(indices) != 1 || call.rank(offsets) != 1)
    return call.unsupported("indices of rank 2");
  const Dim count = extent(call, indices, 0), width = extent(call, weight, 1);
  Dim bags = extent(call, offsets, 0);
  if (call.flag("include_last_offset")) bags = bags - Dim(1);

  // With a last offset, what lies behind it is bag number `bags` by itself.
  const ValueId position = count_up(call, count, call.dtype_of(offsets));
  ValueId bag = call.op(Op::sub, {call.op(Op::searchsorted, {offsets, position}, {{"right", true}}),
                                  call.scalar(int64_t{1}, DType::i64)});
  // Rows of the padding index, and rows before the first offset, go to one more bag that nobody reads.
  const ValueId nowhere = full(call, {}, Attr(bags), DType::i64);
  bag = where(call, call.op(Op::lt, {bag, call.scalar(int64_t{0}, DType::i64)}), nowhere, bag);
  const int64_t padding = call.attr("padding_idx") ? call.integer_or("padding_idx", -1) : -1;
  if (padding >= 0)
    bag = where(call, call.op(Op::eq, {indices, call.scalar(padding, call.dtype_of(indices))}), nowhere, bag);

  const DType wide = is_half(dtype) ? DType::f32 : dtype;  // products and sums of halves round once
  ValueId rows = call.to(call.op(Op::embedding, {weight, indices}), wide);
  if (const ValueId w = call.optional_tensor("per_sample_weights"); w.valid())
    rows = call.op(Op::mul, {rows, call.unsqueeze(call.to(w, wide), 1)});
  const Dims shape{bags + Dim(1), width};
  const ValueId spread = expand(call, call.unsqueeze(bag, 1), {count, width});
  ValueId out = call.op(Op::scatter, {full(call, shape, Attr(Dim(0)), wide), spread, rows},
                        {{"dim", Dim(0)},
                         {"reduce", mode == 0   ? "add"
                                    : mode == 1 ? "mean"
                                                : "amax"},
                         {"include_self", false}});
  out = call.to(call.slice(out, 0, Dim(0), bags), dtype);
  std::vector<ValueId> results(call.output_count(), kNoValue);
  if (!results.empty()) results[0] = out;
  // What torch keeps for the gradient; of sums it keeps nothing, and says so by an empty list of bags.
  if (mode == 0 && results.size() == 4 && numel(expected(call, 1)) == Dim(0))
    for (size_t i = 1; i < 4; ++i)
      results[i] = full(call, expected(call, i), Attr(Dim(0)), call.output_type(i).dtype);
  return call.results(results);
}

constexpr const char* kDataShape = "output shape depends on data";

Status nonzero(Call& call) {
  const auto x = call.known(call.tensor("self"));
  if (!x) return call.unsupported(kDataShape);
  const auto positions = true_positions(*x);
  std::vector<int64_t> rows;
  const size_t count = positions.empty() ? 0 : positions[0].size();
  for (size_t i = 0; i < count; ++i)
    for (const auto& axis : positions) rows.push_back(axis[i]);
  Tensor out = Tensor::of_ints(rows);
  out.shape = {static_cast<int64_t>(count), static_cast<int64_t>(positions.size())};
  return call.result(call.constant(std::move(out)));
}
// The first `size` coordinates of nonzero elements, and `fill_value` where there are fewer.
Status nonzero_static(Call& call) {
  const ValueId x = call.tensor("self");
  const Shape shape = call.shape(x);
  const Dim size = call.dim("size");
  const int64_t rank = call.rank(x), count = numel(shape);
  if (!ok(call)) return stop(call);
  const Dims rows{size, Dim(rank)};
  const ValueId filler = full(call, {size}, Attr(call.dim("fill_value")), DType::i64);
  if (rank == 0 || size == Dim(0)) return call.result(full(call, rows, Attr(Dim(0)), DType::i64));
  if (count == 0) return call.result(full(call, rows, Attr(call.dim("fill_value")), DType::i64));
  const ValueId hit = call.to(flatten(call, call.to(x, DType::boolean)), DType::i64);
  const ValueId order = call.op_all(Op::sort, {hit}, {{"dim", Dim(0)}, {"descending", true}})[1];
  const ValueId hits = call.op(Op::sum, {hit}, {{"dims", Dims{0}}, {"keepdim", false}});
  const ValueId i = count_up(call, size);
  const ValueId last = call.scalar(count - 1, DType::i64);
  const ValueId flat = index_select(call, order, 0, call.op(Op::minimum, {i, last}));
  const ValueId found = call.op(Op::lt, {i, hits});
  std::vector<ValueId> columns;
  int64_t step = count;
  for (const int64_t n : shape) {
    step /= n;
    const Attrs floor{{"rounding", std::string("floor")}};
    const ValueId line = call.op(Op::div, {flat, call.scalar(step, DType::i64)}, floor);
    const ValueId at = call.op(Op::remainder, {line, call.scalar(n, DType::i64)});
    columns.push_back(call.unsqueeze(where(call, found, at, filler), 1));
  }
  return call.result(concat(call, columns, 1));
}
Status nonzero_lists(Call& call) {
  const auto x = call.known(call.tensor(call.attr("self") ? "self" : "condition"));
  if (!x) return call.unsupported(kDataShape);
  std::vector<ValueId> out;
  for (const auto& axis : true_positions(*x)) out.push_back(integers(call, axis));
  return call.results(out);
}
Status masked_select(Call& call) {
  const ValueId x = call.tensor("self"), mask = call.tensor("mask");
  auto joint = broadcast(call.dims_of(x), call.dims_of(mask));
  if (!joint.ok()) return joint.take_error();
  const auto known = call.known(mask);
  if (!known || !is_static(*joint)) return call.unsupported(kDataShape);
  std::vector<int64_t> positions;
  const Shape shape = static_shape(*joint);
  for (int64_t i = 0; i < numel(shape); ++i) {
    int64_t rest = i, from = 0, step = 1;
    for (size_t d = shape.size(), m = known->shape.size(); d-- > 0 && m-- > 0; rest /= shape[d]) {
      if (known->shape[m] != 1) from += rest % shape[d] * step;
      step *= known->shape[m];
    }
    if (element_real(*known, from) != 0.0) positions.push_back(i);
  }
  return call.result(
      index_select(call, flatten(call, expand(call, x, *joint)), 0, integers(call, positions)));
}

Status shape_of_data(Call& call) { return call.unsupported(kDataShape); }

constexpr AtenRule kRules[] = {
    {"aten.gather.default", gather},
    {"aten.index_select.default", index_select_rule},
    {"aten.take.default", take},
    {"aten.take_along_dim.default", take_along_dim},
    {"aten.embedding.default", embedding},
    {"aten.embedding_bag.default", embedding_bag},
    {"aten.embedding_bag.padding_idx", embedding_bag},
    {"aten._embedding_bag.default", embedding_bag},
    {"aten._embedding_bag_forward_only.default", embedding_bag},
    {"aten.index.Tensor", index},
    {"aten._unsafe_index.Tensor", index},
    {"aten._unsafe_masked_index.default", masked_index},
    {"aten.nonzero.default", nonzero},
    {"aten.argwhere.default", nonzero},
    {"aten.nonzero_static.default", nonzero_static},
    {"aten.nonzero_numpy.default", nonzero_lists},
    {"aten.masked_select.default", masked_select},
    {"aten._unique.default", shape_of_data},
    {"aten._unique2.default", shape_of_data},
    {"aten.unique_consecutive.default", shape_of_data},
    {"aten.unique_dim.default", shape_of_data},
    {"aten.unique_dim_consecutive.default", shape_of_data},
    {"aten.bincount.default", shape_of_data},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> take_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
