// Output types of reductions, arg-reductions and running sums.
#include <algorithm>

#include "sixfold/ops/op.h"

namespace sixfold::infer {
namespace {

Status check_operand(const InferCall& call) {
  if (call.in.size() != 1 || !call.in[0].present())
    return invalid_model(call.op, " takes one operand, got ", call.in.size());
  return ok_status();
}

Status check_dtype(const InferCall& call) {
  const DType dtype = call.in[0].dtype;
  switch (call.op) {
    case Op::any:
    case Op::all:
      if (dtype != DType::boolean) return invalid_model(call.op, " reads bool, got ", dtype);
      break;
    case Op::mean:
    case Op::var:
    case Op::logcumsumexp:
      if (!is_float(dtype)) return invalid_model(call.op, " reads floats, got ", dtype);
      break;
    case Op::sum:
    case Op::prod:
    case Op::cumsum:
    case Op::cumprod:
      if (dtype == DType::boolean) return invalid_model(call.op, " reads numbers, got bool");
      break;
    default:
      break;
  }
  return ok_status();
}

// dim, where rank 0 counts as one axis of extent 1.
Result<int64_t> axis_attr(const InferCall& call) {
  const int64_t dim = call.attrs.integer("dim");
  const auto rank = std::max<int64_t>(static_cast<int64_t>(call.in[0].rank()), 1);
  if (dim < 0 || dim >= rank)
    return invalid_model(call.op, ": dim ", dim, " of a tensor of rank ", call.in[0].rank());
  return dim;
}

// A maximum over nothing has no value.
Status check_not_empty(const InferCall& call, size_t axis) {
  if (axis < call.in[0].rank() && call.in[0].dims[axis] == Dim(0))
    return invalid_model(call.op, " over axis ", axis, " of ", call.in[0].dims, ": the extent is 0");
  return ok_status();
}

Dims without(const Dims& dims, const std::vector<bool>& reduced, bool keepdim) {
  Dims out;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!reduced[i])
      out.push_back(dims[i]);
    else if (keepdim)
      out.push_back(1);
  }
  return out;
}

}  // namespace

InferResult reduce(const InferCall& call) {
  SF_TRY(check_operand(call));
  SF_TRY(check_dtype(call));
  const Type& x = call.in[0];
  std::vector<bool> reduced(x.rank());
  for (const int64_t d : call.attrs.ints("dims")) {
    if (d < 0 || d >= static_cast<int64_t>(x.rank()) || reduced[static_cast<size_t>(d)])
      return invalid_model(call.op, ": dims ", call.attrs.ints("dims"), " are not distinct axes of ", x.dims);
    reduced[static_cast<size_t>(d)] = true;
    if (call.op == Op::amax || call.op == Op::amin) SF_TRY(check_not_empty(call, static_cast<size_t>(d)));
  }
  return std::vector<Type>{{x.dtype, without(x.dims, reduced, call.attrs.flag("keepdim"))}};
}

InferResult arg_reduce(const InferCall& call) {
  SF_TRY(check_operand(call));
  const Type& x = call.in[0];
  SF_ASSIGN(const int64_t dim, axis_attr(call));
  SF_TRY(check_not_empty(call, static_cast<size_t>(dim)));
  std::vector<bool> reduced(std::max<size_t>(x.rank(), 1));
  reduced[static_cast<size_t>(dim)] = true;
  return std::vector<Type>{{DType::i64, without(x.dims, reduced, call.attrs.flag("keepdim"))}};
}

InferResult values_and_indices(const InferCall& call) {
  SF_TRY(check_operand(call));
  SF_TRY(axis_attr(call));
  return std::vector<Type>{call.in[0], {DType::i64, call.in[0].dims}};
}

InferResult cumulate(const InferCall& call) {
  SF_TRY(check_operand(call));
  SF_TRY(check_dtype(call));
  SF_TRY(axis_attr(call));
  return std::vector<Type>{call.in[0]};
}

}  // namespace sixfold::infer
