// Output types of shape and data movement ops. Where two extents must agree and one is symbolic, the
// exporter's guards say that they do; once numbers are bound, inference runs again and checks them.
#include <algorithm>

#include "sixfold/ops/op.h"
#include "sixfold/ops/shapes.h"

namespace sixfold::infer {
namespace {

bool may_equal(const Dim& a, const Dim& b) { return !a.is_static() || !b.is_static() || a == b; }

Status check_operands(const InferCall& call, size_t count) {
  if (call.in.size() != count)
    return invalid_model(call.op, " takes ", count, " operands, got ", call.in.size());
  for (const Type& t : call.in)
    if (!t.present()) return invalid_model(call.op, " lacks an operand");
  return ok_status();
}

Status check_shape(const InferCall& call, const Dims& shape) {
  for (const Dim& d : shape)
    if (d.value_or(0) < 0) return invalid_model(call.op, " to a negative extent: shape ", shape);
  if (numel(shape).value_or(0) >= kMaxDim) return invalid_model(call.op, ": shape ", shape, " is too large");
  return ok_status();
}

Result<size_t> axis_attr(const InferCall& call, size_t rank) {
  const int64_t dim = call.attrs.integer("dim");
  if (dim < 0 || dim >= static_cast<int64_t>(rank))
    return invalid_model(call.op, ": dim ", dim, " of a tensor of rank ", rank);
  return static_cast<size_t>(dim);
}

Status check_per_axis(const InferCall& call, std::string_view name, const Dims& list) {
  if (list.size() != call.in[0].rank())
    return invalid_model(call.op, ": ", name, " has ", list.size(), " entries for rank ", call.in[0].rank());
  for (const Dim& d : list)
    if (d.value_or(0) < 0) return invalid_model(call.op, ": ", name, " ", list, " has a negative entry");
  return ok_status();
}

}  // namespace

InferResult reshape(const InferCall& call) {
  SF_TRY(check_operands(call, 1));
  const Type& x = call.in[0];
  Dims shape = call.attrs.dims("shape");
  SF_TRY(check_shape(call, shape));
  if (!may_equal(numel(x.dims), numel(shape)))
    return invalid_model("reshape from ", x.dims, " to ", shape, " changes the number of elements from ",
                         numel(x.dims), " to ", numel(shape));
  return std::vector<Type>{{x.dtype, std::move(shape)}};
}

InferResult bitcast(const InferCall& call) {
  SF_TRY(check_operands(call, 1));
  const Attr* attr = call.attrs.find("dtype");
  const DType* dtype = attr ? std::get_if<DType>(attr) : nullptr;
  const Type& x = call.in[0];
  if (!dtype || *dtype == DType::none || *dtype == DType::boolean)
    return invalid_model("bitcast of ", x, " to no dtype, or to bool, for which not all bytes are values");
  Type out{*dtype, x.dims};
  const auto from = static_cast<int64_t>(size_of(x.dtype)), to = static_cast<int64_t>(size_of(*dtype));
  if (from == to) return std::vector<Type>{out};
  if (x.rank() == 0) return invalid_model("bitcast of ", x, " to elements of ", to, " bytes");
  const Dim bytes = x.dims.back() * Dim(from);
  if (bytes.is_static() && bytes.value() % to != 0)
    return invalid_model("bitcast of rows of ", bytes, " bytes to elements of ", to);
  out.dims.back() = floordiv(bytes, Dim(to));
  return std::vector<Type>{out};
}

InferResult permute(const InferCall& call) {
  SF_TRY(check_operands(call, 1));
  const Type& x = call.in[0];
  const Shape dims = call.attrs.ints("dims");
  if (dims.size() != x.rank()) return invalid_model("permute by ", dims, " of a tensor of rank ", x.rank());
  std::vector<bool> seen(x.rank());
  Dims shape;
  for (const int64_t d : dims) {
    if (d < 0 || d >= static_cast<int64_t>(x.rank()) || seen[static_cast<size_t>(d)])
      return invalid_model("permute: ", dims, " is not a permutation of ", x.rank(), " axes");
    seen[static_cast<size_t>(d)] = true;
    shape.push_back(x.dims[static_cast<size_t>(d)]);
  }
  return std::vector<Type>{{x.dtype, std::move(shape)}};
}

InferResult expand(const InferCall& call) {
  SF_TRY(check_operands(call, 1));
  const Type& x = call.in[0];
  Dims shape = call.attrs.dims("shape");
  SF_TRY(check_shape(call, shape));
  if (shape.size() < x.rank()) return invalid_model("expand from ", x.dims, " to fewer axes: ", shape);
  const size_t lead = shape.size() - x.rank();
  for (size_t i = 0; i < x.rank(); ++i) {
    if (x.dims[i] == Dim(1) || may_equal(x.dims[i], shape[lead + i])) continue;
    return invalid_model("expand from ", x.dims, " to ", shape, ": extent ", x.dims[i], " cannot become ",
                         shape[lead + i]);
  }
  return std::vector<Type>{{x.dtype, std::move(shape)}};
}

InferResult slice(const InferCall& call) {
  SF_TRY(check_operands(call, 1));
  const Type& x = call.in[0];
  SF_ASSIGN(const size_t axis, axis_attr(call, x.rank()));
  SF_ASSIGN(const Dim length, slice_length(call.attrs, x.dims[axis]));
  Dims shape = x.dims;
  shape[axis] = length;
  return std::vector<Type>{{x.dtype, std::move(shape)}};
}

InferResult concat(const InferCall& call) {
  if (call.in.empty()) return invalid_model("concat of no tensors");
  SF_TRY(check_operands(call, call.in.size()));
  const Type& first = call.in[0];
  SF_ASSIGN(const size_t axis, axis_attr(call, first.rank()));
  Dims shape = first.dims;
  shape[axis] = Dim(0);
  for (const Type& t : call.in) {
    if (t.dtype != first.dtype) return invalid_model("concat of ", first.dtype, " and ", t.dtype);
    if (t.rank() != first.rank()) return invalid_model("concat of ", first.dims, " and ", t.dims);
    for (size_t i = 0; i < shape.size(); ++i) {
      if (i == axis) continue;
      if (!may_equal(shape[i], t.dims[i]))
        return invalid_model("concat of ", first.dims, " and ", t.dims, " along ", axis);
      if (t.dims[i].is_static()) shape[i] = t.dims[i];
    }
    shape[axis] += t.dims[axis];
  }
  SF_TRY(check_shape(call, shape));
  return std::vector<Type>{{first.dtype, std::move(shape)}};
}

InferResult pad(const InferCall& call) {
  SF_TRY(check_operands(call, 1));
  const Type& x = call.in[0];
  const Dims before = call.attrs.dims("before"), after = call.attrs.dims("after");
  SF_TRY(check_per_axis(call, "before", before));
  SF_TRY(check_per_axis(call, "after", after));
  const std::string& mode = call.attrs.text("mode");
  Dims shape = x.dims;
  for (size_t i = 0; i < x.rank(); ++i) {
    const int64_t extent = x.dims[i].value_or(kMaxDim);
    const int64_t most = std::max(before[i].value_or(0), after[i].value_or(0));
    int64_t limit = kMaxDim;
    if (mode == "reflect")
      limit = extent - 1;  // the edge itself is not repeated
    else if (mode == "circular")
      limit = extent;
    else if (mode == "replicate")
      limit = extent > 0 ? kMaxDim : 0;
    else if (mode != "constant")
      return invalid_model("pad: no mode '", mode, "'");
    if (most > limit && most > 0)
      return invalid_model("pad: ", most, " elements by ", mode, " beside an axis of ", extent, " (axis ", i,
                           ")");
    shape[i] = before[i] + x.dims[i] + after[i];
  }
  SF_TRY(check_shape(call, shape));
  return std::vector<Type>{{x.dtype, std::move(shape)}};
}

InferResult repeat(const InferCall& call) {
  SF_TRY(check_operands(call, 1));
  const Type& x = call.in[0];
  const Dims repeats = call.attrs.dims("repeats");
  SF_TRY(check_per_axis(call, "repeats", repeats));
  Dims shape = x.dims;
  for (size_t i = 0; i < x.rank(); ++i) shape[i] *= repeats[i];
  SF_TRY(check_shape(call, shape));
  return std::vector<Type>{{x.dtype, std::move(shape)}};
}

InferResult full(const InferCall& call) {
  SF_TRY(check_operands(call, 0));
  Dims shape = call.attrs.dims("shape");
  SF_TRY(check_shape(call, shape));
  const DType dtype = call.attrs.dtype("dtype");
  if (dtype == DType::none) return invalid_model(call.op, " without a dtype");
  return std::vector<Type>{{dtype, std::move(shape)}};
}
InferResult random(const InferCall& call) {
  const DType dtype = call.attrs.dtype("dtype");
  if (!is_float(dtype)) return invalid_model(call.op, " of dtype ", dtype);
  return full(call);
}

InferResult arange(const InferCall& call) {
  SF_TRY(check_operands(call, 0));
  const Attr* length = call.attrs.find("length");
  const Dim* extent = length ? std::get_if<Dim>(length) : nullptr;
  if (!extent) return invalid_model("arange without a length");
  SF_TRY(check_shape(call, {*extent}));
  const DType dtype = call.attrs.dtype("dtype");
  if (dtype == DType::none || dtype == DType::boolean) return invalid_model("arange of dtype ", dtype);
  return std::vector<Type>{{dtype, {*extent}}};
}

}  // namespace sixfold::infer
