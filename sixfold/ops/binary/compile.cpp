#include "sixfold/ops/op.h"
#include "sixfold/ops/shapes.h"

namespace sixfold::infer {
namespace {

Status check_operands(const InferCall& call, size_t count) {
  if (call.in.size() != count)
    return invalid_model(call.op, " has ", call.in.size(), " operands, expected ", count);
  for (const Type& type : call.in)
    if (!type.present()) return invalid_model(call.op, " lacks an operand");
  return ok_status();
}

Status check_equal(const InferCall& call, const Type& a, const Type& b) {
  if (a.dtype == b.dtype) return ok_status();
  return invalid_model(call.op, " needs operands of one dtype, got ", a, " and ", b);
}

// What torch computes for the op after promotion; bool counts as neither a float nor an integer.
Status check_domain(const InferCall& call) {
  const DType dtype = call.in[0].dtype;
  const auto refuse = [&](std::string_view wanted) -> Status {
    return invalid_model(call.op, " needs ", wanted, " operands, got ", call.in[0], " and ", call.in[1]);
  };
  switch (call.op) {
    case Op::div: {
      const Attr* attr = call.attrs.find("rounding");
      const std::string* rounding = attr ? std::get_if<std::string>(attr) : nullptr;
      if (!rounding || (*rounding != "none" && *rounding != "floor" && *rounding != "trunc"))
        return invalid_model("div needs rounding none, floor or trunc");
      if (*rounding == "none" && !is_float(dtype)) return refuse("float");
      return dtype == DType::boolean ? refuse("number") : ok_status();
    }
    case Op::atan2:
      return is_float(dtype) ? ok_status() : refuse("float");
    case Op::sub:
    case Op::fmod:
    case Op::remainder:
    case Op::pow:
      return dtype == DType::boolean ? refuse("number") : ok_status();
    case Op::bitwise_and:
    case Op::bitwise_or:
    case Op::bitwise_xor:
      return is_float(dtype) ? refuse("integer or bool") : ok_status();
    case Op::shift_left:
    case Op::shift_right:
      return is_integer(dtype) ? ok_status() : refuse("integer");
    default:
      return ok_status();
  }
}

Result<Dims> broadcast_operands(const InferCall& call) {
  SF_TRY(check_operands(call, 2));
  SF_TRY(check_equal(call, call.in[0], call.in[1]));
  SF_TRY(check_domain(call));
  return sixfold::broadcast(call.in[0].dims, call.in[1].dims);
}

}  // namespace

InferResult broadcast(const InferCall& call) {
  SF_ASSIGN(Dims dims, broadcast_operands(call));
  return std::vector<Type>{{call.in[0].dtype, std::move(dims)}};
}

InferResult compare(const InferCall& call) {
  SF_ASSIGN(Dims dims, broadcast_operands(call));
  return std::vector<Type>{{DType::boolean, std::move(dims)}};
}

InferResult where(const InferCall& call) {
  SF_TRY(check_operands(call, 3));
  if (call.in[0].dtype != DType::boolean)
    return invalid_model("where needs a bool condition, got ", call.in[0]);
  SF_TRY(check_equal(call, call.in[1], call.in[2]));
  SF_ASSIGN(const Dims sides, sixfold::broadcast(call.in[1].dims, call.in[2].dims));
  SF_ASSIGN(Dims dims, sixfold::broadcast(call.in[0].dims, sides));
  return std::vector<Type>{{call.in[1].dtype, std::move(dims)}};
}

InferResult prelu(const InferCall& call) {
  SF_TRY(check_operands(call, 2));
  const Type& x = call.in[0];
  const Type& weight = call.in[1];
  SF_TRY(check_equal(call, x, weight));
  if (!is_float(x.dtype)) return invalid_model("prelu needs float operands, got ", x);
  const Dim channels = x.rank() < 2 ? Dim(1) : x.dims[1];
  if (weight.rank() != 1 || !(weight.dims[0] == Dim(1) || equivalent(weight.dims[0], channels)))
    return invalid_model("prelu needs one weight or ", channels, ", got ", weight);
  return std::vector<Type>{x};
}

}  // namespace sixfold::infer
