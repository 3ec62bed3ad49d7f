#include <cmath>

#include "sixfold/ops/elementwise.h"
#include "sixfold/ops/rule_table.h"

namespace sixfold::aten {
namespace {

std::string rounding_of(Call& call) {
  if (call.is_none("rounding_mode")) return "none";
  std::string mode = call.text("rounding_mode");
  if (mode != "floor" && mode != "trunc")
    call.fail(Code::InvalidModel, "div rounds by floor or trunc, not by ", mode);
  return mode;
}

// torch rounds a number beside a half tensor to the half before it adds, but multiplies and divides by the
// float. Such a product is computed in f32.
bool needs_float(Call& call, DType dtype, std::string_view name) {
  if (!is_half(dtype) || call.is_tensor(name)) return false;
  const auto value = static_cast<float>(call.real(name));
  return (dtype == DType::f16 ? static_cast<float>(Half(value)) : static_cast<float>(BFloat16(value))) !=
         value;
}

// The dtype of the result, and the one to compute in.
struct Dtypes {
  DType result, compute;
};
Dtypes product_dtypes(Call& call, bool to_floats = false) {
  DType dtype = result_type(call, {"self", "other"});
  if (to_floats) dtype = to_float(dtype);
  const bool wide = needs_float(call, dtype, "self") || needs_float(call, dtype, "other");
  return {dtype, wide ? DType::f32 : dtype};
}

// operand * alpha
ValueId scaled(Call& call, std::string_view name, DType dtype) {
  const ValueId x = operand(call, name, dtype);
  if (call.is_none("alpha") || call.real("alpha") == 1) return x;
  return call.op(Op::mul, {x, operand(call, "alpha", dtype)});
}

template <Op op>
Status add_or_sub(Call& call) {
  const DType dtype = result_type(call, {"self", "other"});
  return call.result(call.op(op, {operand(call, "self", dtype), scaled(call, "other", dtype)}));
}
Status rsub(Call& call) {
  const DType dtype = result_type(call, {"self", "other"});
  return call.result(call.op(Op::sub, {operand(call, "other", dtype), scaled(call, "self", dtype)}));
}
Status add_relu(Call& call) {
  const DType dtype = result_type(call, {"self", "other"});
  const ValueId sum = call.op(Op::add, {operand(call, "self", dtype), scaled(call, "other", dtype)});
  return call.result(call.op(Op::relu, {sum}));
}
Status mul(Call& call) {
  const Dtypes d = product_dtypes(call);
  const ValueId y = call.op(Op::mul, {operand(call, "self", d.compute), operand(call, "other", d.compute)});
  return call.result(call.to(y, d.result));
}

Status divide(Call& call, const std::string& rounding) {
  const Dtypes d = product_dtypes(call, /*to_floats=*/rounding == "none");
  const ValueId y = call.op(Op::div, {operand(call, "self", d.compute), operand(call, "other", d.compute)},
                            {{"rounding", rounding}});
  return call.result(call.to(y, d.result));
}
Status div(Call& call) { return divide(call, "none"); }
Status div_mode(Call& call) { return divide(call, rounding_of(call)); }
Status floor_divide(Call& call) { return divide(call, "floor"); }

template <Op op>
Status promoting(Call& call) {
  const Operands2 x = promoted(call);
  return call.result(call.op(op, {x.a, x.b}));
}
template <Op op>
Status promoting_float(Call& call) {
  const Operands2 x = promoted_float(call);
  return call.result(call.op(op, {x.a, x.b}));
}

// Powers that models write as constants become the ops that devices know better than pow.
ValueId simple_power(Call& call, ValueId x, double exponent) {
  if (exponent == 1) return x;
  if (exponent == 2) return call.op(Op::mul, {x, x});
  if (exponent == 3) return call.op(Op::mul, {call.op(Op::mul, {x, x}), x});
  if (!is_float(call.dtype_of(x))) return kNoValue;
  if (exponent == 0.5) return call.op(Op::sqrt, {x});
  if (exponent == -0.5) return call.op(Op::rsqrt, {x});
  if (exponent == -1) return call.op(Op::reciprocal, {x});
  return kNoValue;
}
Status pow(Call& call) {
  const DType dtype = result_type(call, {"self", "exponent"});
  if (!call.is_tensor("exponent")) {
    const double exponent = call.real("exponent");
    if (!is_float(dtype) && exponent < 0)
      return invalid_model("an integer tensor to the negative power ", exponent);
    if (call.is_tensor("self")) {
      const ValueId y = simple_power(call, operand(call, "self", dtype), exponent);
      if (y.valid()) return call.result(y);
    }
  }
  return call.result(call.op(Op::pow, {operand(call, "self", dtype), operand(call, "exponent", dtype)}));
}
Status pow_scalar(Call& call) {  // number ^ tensor
  const DType dtype = result_type(call, {"self", "exponent"});
  if (is_float(dtype) && call.real("self") == 2)
    return call.result(call.op(Op::exp2, {operand(call, "exponent", dtype)}));
  return pow(call);
}
Status float_power(Call& call) {
  return call.result(
      call.op(Op::pow, {operand(call, "self", DType::f64), operand(call, "exponent", DType::f64)}));
}

// self + value * t1 * t2, and with t1 / t2
template <bool divide_second>
Status addc(Call& call) {
  DType dtype = result_type(call, {"self", "tensor1", "tensor2"});
  if (divide_second) dtype = to_float(dtype);
  const DType compute = wide(dtype);
  Formula f{call};
  const ValueId a = operand(call, "tensor1", compute), b = operand(call, "tensor2", compute);
  ValueId product = divide_second ? f.div(a, b) : f.mul(a, b);
  if (call.real("value") != 1) product = f.mul(product, operand(call, "value", compute));
  return call.result(call.to(f.add(operand(call, "self", compute), product), dtype));
}

// self + weight * (end - self)
Status lerp(Call& call) {
  Formula f{call};
  const DType dtype = call.dtype_of(call.tensor("self"));
  const ValueId x = operand(call, "self", wide(dtype));
  const ValueId step = f.sub(operand(call, "end", wide(dtype)), x);
  return call.result(call.to(f.add(x, f.mul(step, operand(call, "weight", wide(dtype)))), dtype));
}

// prims divide integers as C does.
Status prims_div(Call& call) {
  return divide(call, is_float(result_type(call, {"self", "other"})) ? "none" : "trunc");
}

constexpr AtenRule kRules[] = {
    {"aten.add.Tensor", add_or_sub<Op::add>},
    {"aten.add.Scalar", add_or_sub<Op::add>},
    {"aten.sub.Tensor", add_or_sub<Op::sub>},
    {"aten.sub.Scalar", add_or_sub<Op::sub>},
    {"aten.subtract.Tensor", add_or_sub<Op::sub>},
    {"aten.subtract.Scalar", add_or_sub<Op::sub>},
    {"aten.rsub.Tensor", rsub},
    {"aten.rsub.Scalar", rsub},
    {"aten._add_relu.Tensor", add_relu},
    {"aten._add_relu.Scalar", add_relu},
    {"aten.mul.Tensor", mul},
    {"aten.mul.Scalar", mul},
    {"aten.multiply.Tensor", mul},
    {"aten.multiply.Scalar", mul},
    {"aten.div.Tensor", div},
    {"aten.div.Scalar", div},
    {"aten.divide.Tensor", div},
    {"aten.divide.Scalar", div},
    {"aten.true_divide.Tensor", div},
    {"aten.true_divide.Scalar", div},
    {"aten.div.Tensor_mode", div_mode},
    {"aten.div.Scalar_mode", div_mode},
    {"aten.divide.Tensor_mode", div_mode},
    {"aten.divide.Scalar_mode", div_mode},
    {"aten.floor_divide.default", floor_divide},
    {"aten.floor_divide.Scalar", floor_divide},
    {"aten.fmod.Tensor", promoting<Op::fmod>},
    {"aten.fmod.Scalar", promoting<Op::fmod>},
    {"aten.remainder.Tensor", promoting<Op::remainder>},
    {"aten.remainder.Scalar", promoting<Op::remainder>},
    {"aten.remainder.Scalar_Tensor", promoting<Op::remainder>},
    {"aten.minimum.default", promoting<Op::minimum>},
    {"aten.maximum.default", promoting<Op::maximum>},
    {"aten.min.other", promoting<Op::minimum>},
    {"aten.max.other", promoting<Op::maximum>},
    {"aten.atan2.default", promoting_float<Op::atan2>},
    {"aten.arctan2.default", promoting_float<Op::atan2>},
    {"aten.pow.Tensor_Tensor", pow},
    {"aten.pow.Tensor_Scalar", pow},
    {"aten.pow.Scalar", pow_scalar},
    {"aten.float_power.Tensor_Tensor", float_power},
    {"aten.float_power.Tensor_Scalar", float_power},
    {"aten.float_power.Scalar", float_power},
    {"aten.addcmul.default", addc<false>},
    {"aten.addcdiv.default", addc<true>},
    {"aten.lerp.Scalar", lerp},
    {"aten.lerp.Tensor", lerp},
    {"prims.add.default", add_or_sub<Op::add>},
    {"prims.sub.default", add_or_sub<Op::sub>},
    {"prims.mul.default", mul},
    {"prims.div.default", prims_div},
    {"prims.fmod.default", promoting<Op::fmod>},
    {"prims.remainder.default", promoting<Op::remainder>},
    {"prims.minimum.default", promoting<Op::minimum>},
    {"prims.maximum.default", promoting<Op::maximum>},
    {"prims.atan2.default", promoting_float<Op::atan2>},
    {"prims.pow.default", promoting<Op::pow>},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> arithmetic_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
