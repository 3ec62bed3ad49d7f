// Diagonals and triangles. A diagonal is a slice: in rows of n elements laid end to end, its elements are n +
// 1 apart.
#include <algorithm>

#include "sixfold/ops/rule_table.h"
#include "sixfold/ops/shape/build.h"

namespace sixfold::aten {
namespace {

// Where a diagonal lies in the last two axes [rows, columns], flattened.
struct Diagonal {
  int64_t start, end, step, length;
};
Diagonal diagonal_of(int64_t rows, int64_t columns, int64_t offset) {
  const int64_t row = std::max<int64_t>(-offset, 0), column = std::max<int64_t>(offset, 0);
  const int64_t length = std::max<int64_t>(std::min(rows - row, columns - column), 0);
  if (length == 0) return {0, 0, 1, 0};
  const int64_t start = row * columns + column, step = columns + 1;
  return {start, start + (length - 1) * step + 1, step, length};
}

// The order of axes with dim1 and dim2 last.
Shape with_last(int64_t rank, int64_t dim1, int64_t dim2) {
  Shape order;
  for (int64_t i = 0; i < rank; ++i)
    if (i != dim1 && i != dim2) order.push_back(i);
  order.insert(order.end(), {dim1, dim2});
  return order;
}
Shape inverse(const Shape& order) {
  Shape out(order.size());
  for (size_t i = 0; i < order.size(); ++i) out[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return out;
}

Attrs slice_attrs(int64_t axis, const Diagonal& d) {
  return {{"dim", Dim(axis)}, {"start", Dim(d.start)}, {"end", Dim(d.end)}, {"step", Dim(d.step)}};
}

ValueId take_diagonal(Call& call, ValueId x, int64_t offset, int64_t dim1, int64_t dim2) {
  dim1 = call.normalize(dim1, x);
  dim2 = call.normalize(dim2, x);
  const Shape shape = call.shape(x);
  if (shape.size() < 2 || dim1 == dim2)
    call.fail(Code::InvalidModel, "diagonal of axes ", dim1, " and ", dim2, " of ", call.type(x));
  if (!ok(call)) return kNoValue;
  const ValueId moved = call.permute(x, with_last(call.rank(x), dim1, dim2));
  const int64_t rows = shape[static_cast<size_t>(dim1)], columns = shape[static_cast<size_t>(dim2)];
  Dims flat = call.dims_of(moved);
  flat.resize(flat.size() - 2);
  flat.push_back(Dim(rows * columns));
  const Diagonal d = diagonal_of(rows, columns, offset);
  const ValueId y = call.reshape(moved, flat);
  return call.slice(y, call.rank(y) - 1, Dim(d.start), Dim(d.end), d.step);
}
Status diagonal(Call& call) {
  return call.result(take_diagonal(call, call.tensor(call.attr("self") ? "self" : "A"),
                                   call.integer("offset"), call.integer("dim1"), call.integer("dim2")));
}

// x along a diagonal of new axes dim1 and dim2, zeros elsewhere.
ValueId embed_diagonal(Call& call, ValueId x, int64_t offset, int64_t dim1, int64_t dim2) {
  const Shape shape = call.shape(x);
  auto first = normalize_axis(dim1, shape.size() + 1), second = normalize_axis(dim2, shape.size() + 1);
  if (shape.empty() || !first.ok() || !second.ok() || *first == *second)
    call.fail(Code::InvalidModel, "diag_embed of ", call.type(x), " on axes ", dim1, " and ", dim2);
  if (!ok(call)) return kNoValue;
  const int64_t n = shape.back() + std::abs(offset);
  Dims flat = to_dims(shape), square = flat;
  flat.back() = Dim(n * n);
  square.back() = Dim(n);
  square.push_back(Dim(n));
  const Diagonal d = diagonal_of(n, n, offset);
  const ValueId zeros = full(call, flat, Attr(Dim(0)), call.dtype_of(x));
  const ValueId filled = call.op(Op::slice_scatter, {zeros, x}, slice_attrs(call.rank(x) - 1, d));
  return call.permute(call.reshape(filled, square), inverse(with_last(call.rank(x) + 1, *first, *second)));
}
Status diag_embed(Call& call) {
  return call.result(embed_diagonal(call, call.tensor("self"), call.integer("offset"), call.integer("dim1"),
                                    call.integer("dim2")));
}
Status diag(Call& call) {
  const ValueId x = call.tensor("self");
  const int64_t offset = call.integer("diagonal");
  return call.result(call.rank(x) == 1 ? embed_diagonal(call, x, offset, 0, 1)
                                       : take_diagonal(call, x, offset, 0, 1));
}
Status diagflat(Call& call) {
  return call.result(embed_diagonal(call, flatten(call, call.tensor("self")), call.integer("offset"), 0, 1));
}

Status diagonal_scatter(Call& call) {
  const ValueId x = call.tensor("self"), src = call.tensor("src");
  const int64_t dim1 = call.axis("dim1", x), dim2 = call.axis("dim2", x), offset = call.integer("offset");
  const Shape shape = call.shape(x);
  if (!ok(call)) return stop(call);
  if (shape.size() < 2 || dim1 == dim2)
    return invalid_model("diagonal of axes ", dim1, " and ", dim2, " of ", call.type(x));
  const auto order = with_last(call.rank(x), dim1, dim2);
  const ValueId moved = call.permute(x, order);
  const int64_t rows = shape[static_cast<size_t>(dim1)], columns = shape[static_cast<size_t>(dim2)];
  const Dims full_dims = call.dims_of(moved);
  Dims flat(full_dims.begin(), full_dims.end() - 2);
  flat.push_back(Dim(rows * columns));
  const Diagonal d = diagonal_of(rows, columns, offset);
  const ValueId out = call.op(Op::slice_scatter, {call.reshape(moved, flat), src},
                              slice_attrs(static_cast<int64_t>(flat.size()) - 1, d));
  return call.result(call.permute(call.reshape(out, full_dims), inverse(order)));
}

// Keeps x where column - row <= diagonal (tril) or >= diagonal (triu). Over numbers the mask folds to a
// constant.
Status triangle(Call& call, Op keep) {
  const ValueId x = call.tensor("self");
  const Dim diagonal = call.dim("diagonal");
  const Dims& dims = call.dims_of(x);
  if (!ok(call)) return stop(call);
  if (dims.size() < 2) return invalid_model("tril or triu of ", call.type(x));
  const Dim rows = dims[dims.size() - 2], columns = dims[dims.size() - 1];
  const ValueId row = call.reshape(count_up(call, rows), {rows, Dim(1)});
  const ValueId distance = call.op(Op::sub, {count_up(call, columns), row});
  const ValueId mask = call.op(keep, {distance, full(call, {}, Attr(diagonal), DType::i64)});
  return call.result(where(call, mask, x, call.scalar(int64_t{0}, call.dtype_of(x))));
}
Status tril(Call& call) { return triangle(call, Op::le); }
Status triu(Call& call) { return triangle(call, Op::ge); }

Status triangle_indices(Call& call, bool lower) {
  const int64_t rows = call.integer("row"), columns = call.integer("col"), offset = call.integer("offset");
  if (!ok(call)) return stop(call);
  if (rows < 0 || columns < 0 || rows * columns > (1 << 28))
    return invalid_model("indices of a ", rows, " x ", columns, " triangle");
  std::vector<int64_t> first, second;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t begin = lower ? 0 : std::clamp<int64_t>(r + offset, 0, columns);
    const int64_t end = lower ? std::clamp<int64_t>(r + offset + 1, 0, columns) : columns;
    for (int64_t c = begin; c < end; ++c) first.push_back(r), second.push_back(c);
  }
  const auto count = static_cast<int64_t>(first.size());
  first.insert(first.end(), second.begin(), second.end());
  Tensor out = Tensor::of_ints(first);
  out.shape = {2, count};
  return call.result(call.to(call.constant(std::move(out)), call.dtype("dtype").value_or(DType::i64)));
}
Status tril_indices(Call& call) { return triangle_indices(call, true); }
Status triu_indices(Call& call) { return triangle_indices(call, false); }

constexpr AtenRule kRules[] = {
    {"aten.diagonal.default", diagonal},
    {"aten.linalg_diagonal.default", diagonal},
    {"aten.diagonal_copy.default", diagonal},
    {"aten.diag.default", diag},
    {"aten.diagflat.default", diagflat},
    {"aten.diag_embed.default", diag_embed},
    {"aten.diagonal_scatter.default", diagonal_scatter},
    {"aten.tril.default", tril},
    {"aten.triu.default", triu},
    {"aten.tril_indices.default", tril_indices},
    {"aten.triu_indices.default", triu_indices},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> diagonal_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
