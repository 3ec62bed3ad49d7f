// Reading the arguments of elementwise calls: type promotion, numbers that stand for tensors.
#pragma once

#include "sixfold/ops/aten.h"

namespace sixfold::aten {

// The argument, tensor or number, as a value of dtype.
inline ValueId operand(Call& call, std::string_view name, DType dtype) {
  return call.to(call.tensor_or_scalar(name, dtype), dtype);
}

// A tensor argument as a float tensor: integers and bool become the default float.
inline ValueId float_operand(Call& call, std::string_view name) {
  const ValueId x = call.tensor(name);
  return call.to(x, to_float(call.dtype_of(x)));
}

// Formulas of several steps are computed in f32 for half operands and rounded once, as torch does.
inline DType wide(DType dtype) { return is_half(dtype) ? DType::f32 : dtype; }
inline ValueId wide_operand(Call& call, std::string_view name) {
  const ValueId x = float_operand(call, name);
  return call.to(x, wide(call.dtype_of(x)));
}
// The result of such a formula, in the dtype that float_operand(name) has.
inline Status narrowed(Call& call, ValueId y, std::string_view name = "self") {
  return call.result(call.to(y, to_float(call.dtype_of(call.tensor(name)))));
}

// A number argument as an attribute of an op on dtype: integers stay exact for integer ops. None stays none.
inline Attr number(Call& call, std::string_view name, DType dtype) {
  if (call.is_none(name)) return {};
  if (is_float(dtype) || call.is_real_number(name)) return call.real(name);
  return call.dim(name).is_static() ? Attr(call.dim(name)) : Attr(Dim(call.integer(name)));
}

struct Operands2 {
  ValueId a, b;
  DType dtype;  // both have it
};
inline Operands2 promoted(Call& call, std::string_view a = "self", std::string_view b = "other") {
  const DType dtype = result_type(call, {a, b});
  return {operand(call, a, dtype), operand(call, b, dtype), dtype};
}
inline Operands2 promoted_float(Call& call, std::string_view a = "self", std::string_view b = "other") {
  const DType dtype = to_float(result_type(call, {a, b}));
  return {operand(call, a, dtype), operand(call, b, dtype), dtype};
}

// A few letters for formulas: all operands of one dtype, or a number that takes the other's.
struct Formula {
  Call& call;

  ValueId num(double value, ValueId like) { return call.scalar(value, call.dtype_of(like)); }
  ValueId un(Op op, ValueId x) { return call.op(op, {x}); }
  ValueId add(ValueId a, ValueId b) { return call.op(Op::add, {a, b}); }
  ValueId sub(ValueId a, ValueId b) { return call.op(Op::sub, {a, b}); }
  ValueId mul(ValueId a, ValueId b) { return call.op(Op::mul, {a, b}); }
  ValueId mul(ValueId a, double b) { return mul(a, num(b, a)); }
  ValueId add(ValueId a, double b) { return add(a, num(b, a)); }
  ValueId div(ValueId a, ValueId b) { return call.op(Op::div, {a, b}, {{"rounding", std::string("none")}}); }
  ValueId cmp(Op op, ValueId a, double b) { return call.op(op, {a, num(b, a)}); }
  ValueId where(ValueId condition, ValueId a, ValueId b) { return call.op(Op::where, {condition, a, b}); }
  ValueId both(ValueId a, ValueId b) { return call.op(Op::logical_and, {a, b}); }
  ValueId either(ValueId a, ValueId b) { return call.op(Op::logical_or, {a, b}); }
  ValueId softplus(ValueId x, double beta, double threshold) {
    return call.op(Op::softplus, {x}, {{"beta", beta}, {"threshold", threshold}});
  }
  ValueId clamp(ValueId x, Attr low, Attr high) {
    return call.op(Op::clamp, {x}, {{"min", std::move(low)}, {"max", std::move(high)}});
  }
  ValueId full(const Dims& shape, Attr value, DType dtype) {
    return call.op(Op::full, {}, {{"shape", shape}, {"value", std::move(value)}, {"dtype", dtype}});
  }
};

// Whether the sign of each float is negative, that of -0 and of NaN too.
inline ValueId is_sign_negative(Call& call, ValueId x) {
  const size_t bytes = size_of(call.dtype_of(x));
  const DType integer = bytes == 2 ? DType::i16 : bytes == 4 ? DType::i32 : DType::i64;
  const ValueId bits = call.op(Op::bitcast, {x}, {{"dtype", integer}});
  return call.op(Op::lt, {bits, call.scalar(int64_t{0}, integer)});
}

// Parts of unary_rules() and binary_rules().
std::span<const AtenRule> function_rules();         // unary/aten_function.cpp: named functions of mathematics
std::span<const AtenRule> activation_rules();       // unary/aten_activation.cpp
std::span<const AtenRule> copy_rules();             // unary/aten_copy.cpp: conversions, fills, dropout
std::span<const AtenRule> arithmetic_rules();       // binary/aten_arithmetic.cpp
std::span<const AtenRule> logic_rules();            // binary/aten_logic.cpp: comparisons, bits, choices
std::span<const AtenRule> binary_function_rules();  // binary/aten_function.cpp

}  // namespace sixfold::aten
