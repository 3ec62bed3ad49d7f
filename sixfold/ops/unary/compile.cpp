#include "sixfold/ops/op.h"

namespace sixfold::infer {
namespace {

Status check_operand(const InferCall& call) {
  if (call.in.empty() || !call.in[0].present()) return invalid_model(call.op, " has no operand");
  return ok_status();
}

enum class Domain : uint8_t { any, floats, integers, not_bool };

Domain domain_of(Op op) {
  if (op > Op::clamp) return Domain::any;  // a row of another family
  switch (op) {
    case Op::abs:
    case Op::sign:
      return Domain::any;
    case Op::neg:
    case Op::relu:
    case Op::clamp:
    case Op::ceil:
    case Op::floor:
    case Op::round:
    case Op::trunc:
      return Domain::not_bool;
    case Op::bitwise_not:
      return Domain::integers;
    default:
      return Domain::floats;
  }
}

Status check_domain(const InferCall& call) {
  const DType dtype = call.in[0].dtype;
  switch (domain_of(call.op)) {
    case Domain::any:
      return ok_status();
    case Domain::floats:
      if (is_float(dtype)) return ok_status();
      return invalid_model(call.op, " needs a float operand, got ", call.in[0]);
    case Domain::integers:
      if (!is_float(dtype)) return ok_status();
      return invalid_model(call.op, " needs an integer or bool operand, got ", call.in[0]);
    case Domain::not_bool:
      if (dtype != DType::boolean) return ok_status();
      return invalid_model(call.op, " is not defined for ", call.in[0]);
  }
  return ok_status();
}

}  // namespace

// Other families use it too, with more operands than one: those they check themselves.
InferResult same_as_input(const InferCall& call) {
  SF_TRY(check_operand(call));
  SF_TRY(check_domain(call));
  const Type& x = call.in[0];
  if (const Attr* attr = call.attrs.find("dim")) {
    const Dim* dim = std::get_if<Dim>(attr);
    const int64_t last = x.rank() == 0 ? 0 : static_cast<int64_t>(x.rank()) - 1;
    if (!dim || !dim->is_static() || dim->value() < 0 || dim->value() > last)
      return invalid_model(call.op, " along axis ", *attr, " of ", x);
  }
  return std::vector<Type>{x};
}

InferResult predicate(const InferCall& call) {
  SF_TRY(check_operand(call));
  return std::vector<Type>{{DType::boolean, call.in[0].dims}};
}

InferResult to(const InferCall& call) {
  SF_TRY(check_operand(call));
  const Attr* attr = call.attrs.find("dtype");
  const DType* dtype = attr ? std::get_if<DType>(attr) : nullptr;
  if (!dtype || *dtype == DType::none) return invalid_model("to needs a dtype");
  return std::vector<Type>{{*dtype, call.in[0].dims}};
}

}  // namespace sixfold::infer
