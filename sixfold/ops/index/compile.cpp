// Output types of indexing ops. What an index holds is data: kernels check it.
#include <algorithm>

#include "sixfold/ops/op.h"
#include "sixfold/ops/shapes.h"

namespace sixfold::infer {
namespace {

bool may_equal(const Dim& a, const Dim& b) { return !a.is_static() || !b.is_static() || a == b; }
bool may_fit(const Dim& inner, const Dim& outer) {
  return !inner.is_static() || !outer.is_static() || inner.value() <= outer.value();
}

Status check_operands(const InferCall& call, size_t count) {
  if (call.in.size() != count)
    return invalid_model(call.op, " takes ", count, " operands, got ", call.in.size());
  for (const Type& t : call.in)
    if (!t.present()) return invalid_model(call.op, " lacks an operand");
  return ok_status();
}

Status check_index(const InferCall& call, const Type& index) {
  if (index.dtype != DType::i64 && index.dtype != DType::i32)
    return invalid_model(call.op, ": an index is i64 or i32, got ", index);
  return ok_status();
}

Result<size_t> axis_attr(const InferCall& call) {
  const int64_t dim = call.attrs.integer("dim");
  const size_t rank = call.in[0].rank();
  if (dim < 0 || dim >= static_cast<int64_t>(rank))
    return invalid_model(call.op, ": dim ", dim, " of a tensor of rank ", rank);
  return static_cast<size_t>(dim);
}

Status check_same_dtype(const InferCall& call, const Type& a, const Type& b) {
  if (a.dtype == b.dtype) return ok_status();
  return invalid_model(call.op, " of ", a.dtype, " and ", b.dtype);
}

// Index of the same rank as x, no longer than x except along the axis.
Status check_aligned_index(const InferCall& call, size_t axis) {
  const Type &x = call.in[0], &index = call.in[1];
  SF_TRY(check_index(call, index));
  if (index.rank() != x.rank())
    return invalid_model(call.op, ": index ", index.dims, " for a tensor ", x.dims);
  for (size_t i = 0; i < x.rank(); ++i)
    if (i != axis && !may_fit(index.dims[i], x.dims[i]))
      return invalid_model(call.op, " along ", axis, ": index ", index.dims, " exceeds the tensor ", x.dims);
  return ok_status();
}

// Shape of x[.., indices, ..]: the broadcast indices stand where the indexed axes stood if those are
// adjacent, else in front, as in torch.
Result<Dims> indexed_shape(const InferCall& call, std::span<const Type> indices) {
  const Type& x = call.in[0];
  const Shape dims = call.attrs.ints("dims");
  if (dims.empty() || dims.size() != indices.size())
    return invalid_model(call.op, ": ", indices.size(), " indices for axes ", dims);
  Dims joint;
  bool adjacent = true;
  for (size_t i = 0; i < dims.size(); ++i) {
    SF_TRY(check_index(call, indices[i]));
    SF_ASSIGN(joint, broadcast(joint, indices[i].dims));
    if (dims[i] < 0 || dims[i] >= static_cast<int64_t>(x.rank()) || (i > 0 && dims[i] <= dims[i - 1]))
      return invalid_model(call.op, ": axes ", dims, " of a tensor of rank ", x.rank());
    if (i > 0 && dims[i] != dims[i - 1] + 1) adjacent = false;
  }
  Dims out;
  if (!adjacent) out = joint;
  for (size_t i = 0; i < x.rank(); ++i) {
    if (adjacent && static_cast<int64_t>(i) == dims[0]) out.insert(out.end(), joint.begin(), joint.end());
    if (std::find(dims.begin(), dims.end(), static_cast<int64_t>(i)) == dims.end()) out.push_back(x.dims[i]);
  }
  return out;
}

}  // namespace

InferResult gather(const InferCall& call) {
  SF_TRY(check_operands(call, 2));
  SF_ASSIGN(const size_t axis, axis_attr(call));
  SF_TRY(check_aligned_index(call, axis));
  return std::vector<Type>{{call.in[0].dtype, call.in[1].dims}};
}

InferResult index_select(const InferCall& call) {
  SF_TRY(check_operands(call, 2));
  SF_ASSIGN(const size_t axis, axis_attr(call));
  SF_TRY(check_index(call, call.in[1]));
  if (call.in[1].rank() != 1)
    return invalid_model("index_select: the index is ", call.in[1], ", expected rank 1");
  Type out = call.in[0];
  out.dims[axis] = call.in[1].dims[0];
  return std::vector<Type>{std::move(out)};
}

InferResult embedding(const InferCall& call) {
  SF_TRY(check_operands(call, 2));
  SF_TRY(check_index(call, call.in[1]));
  const Type& weight = call.in[0];
  if (weight.rank() < 1) return invalid_model("embedding: the weight is a scalar");
  Dims shape = call.in[1].dims;
  shape.insert(shape.end(), weight.dims.begin() + 1, weight.dims.end());
  return std::vector<Type>{{weight.dtype, std::move(shape)}};
}

InferResult index(const InferCall& call) {
  SF_TRY(check_operands(call, std::max<size_t>(call.in.size(), 2)));
  SF_ASSIGN(Dims shape, indexed_shape(call, call.in.subspan(1)));
  return std::vector<Type>{{call.in[0].dtype, std::move(shape)}};
}

InferResult index_put(const InferCall& call) {
  SF_TRY(check_operands(call, std::max<size_t>(call.in.size(), 3)));
  const Type &x = call.in[0], &values = call.in[1];
  SF_TRY(check_same_dtype(call, x, values));
  SF_ASSIGN(const Dims region, indexed_shape(call, call.in.subspan(2)));
  SF_ASSIGN(const Dims joint, broadcast(region, values.dims));
  if (joint.size() != region.size() || !std::equal(joint.begin(), joint.end(), region.begin(), may_equal))
    return invalid_model("index_put: values ", values.dims, " do not broadcast to ", region);
  return std::vector<Type>{x};
}

InferResult scatter(const InferCall& call) {
  SF_TRY(check_operands(call, 3));
  SF_ASSIGN(const size_t axis, axis_attr(call));
  SF_TRY(check_aligned_index(call, axis));
  const Type &x = call.in[0], &index = call.in[1], &src = call.in[2];
  SF_TRY(check_same_dtype(call, x, src));
  if (src.rank() != index.rank())
    return invalid_model("scatter: index ", index.dims, " for values ", src.dims);
  for (size_t i = 0; i < index.rank(); ++i)
    if (!may_fit(index.dims[i], src.dims[i]))
      return invalid_model("scatter: index ", index.dims, " exceeds the values ", src.dims);
  static constexpr std::string_view kReductions[] = {"none", "add", "mul", "mean", "amax", "amin"};
  const std::string& reduce = call.attrs.text("reduce");
  if (std::find(std::begin(kReductions), std::end(kReductions), reduce) == std::end(kReductions))
    return invalid_model("scatter: no reduction '", reduce, "'");
  return std::vector<Type>{x};
}

InferResult slice_scatter(const InferCall& call) {
  SF_TRY(check_operands(call, 2));
  const Type &x = call.in[0], &src = call.in[1];
  SF_TRY(check_same_dtype(call, x, src));
  SF_ASSIGN(const size_t axis, axis_attr(call));
  SF_ASSIGN(const Dim length, slice_length(call.attrs, x.dims[axis]));
  Dims region = x.dims;
  region[axis] = length;
  if (src.rank() != x.rank() || !std::equal(region.begin(), region.end(), src.dims.begin(), may_equal))
    return invalid_model("slice_scatter: values ", src.dims, " into a slice of shape ", region);
  return std::vector<Type>{x};
}

InferResult topk(const InferCall& call) {
  SF_TRY(check_operands(call, 1));
  SF_ASSIGN(const size_t axis, axis_attr(call));
  const Attr* attr = call.attrs.find("k");
  const Dim* k = attr ? std::get_if<Dim>(attr) : nullptr;
  Type values = call.in[0];
  if (!k || k->value_or(0) < 0 || !may_fit(*k, values.dims[axis]))
    return invalid_model("topk: ", k ? *k : Dim(-1), " of an axis of ", values.dims[axis]);
  values.dims[axis] = *k;
  Type indices{DType::i64, values.dims};
  return std::vector<Type>{std::move(values), std::move(indices)};
}

InferResult searchsorted(const InferCall& call) {
  SF_TRY(check_operands(call, 2));
  const Type &sorted = call.in[0], &values = call.in[1];
  SF_TRY(check_same_dtype(call, sorted, values));
  bool fits = sorted.rank() == 1 || (sorted.rank() == values.rank() && sorted.rank() > 0);
  for (size_t i = 0; fits && i + 1 < sorted.rank(); ++i) fits = may_equal(sorted.dims[i], values.dims[i]);
  if (!fits) return invalid_model("searchsorted: ", values.dims, " in rows of ", sorted.dims);
  return std::vector<Type>{{DType::i64, values.dims}};
}

}  // namespace sixfold::infer
