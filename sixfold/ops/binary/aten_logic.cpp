#include <limits>

#include "sixfold/ops/elementwise.h"
#include "sixfold/ops/rule_table.h"

namespace sixfold::aten {
namespace {

template <Op op>
Status compare(Call& call) {
  const Operands2 x = promoted(call);
  return call.result(call.op(op, {x.a, x.b}));
}

template <Op op>
Status bitwise(Call& call) {
  const Operands2 x = promoted(call);
  return call.result(call.op(op, {x.a, x.b}));
}

template <Op op>
Status shift(Call& call) {
  const Operands2 x = promoted(call);
  if (is_float(x.dtype)) return call.unsupported("shifts of floats");
  return call.result(call.op(op, {x.a, x.b}));
}

// Operands keep their dtypes in torch: each is asked by itself whether it is zero.
template <Op op>
Status logical(Call& call) {
  ValueId a = call.tensor("self"), b = call.tensor("other");
  if (call.dtype_of(a) != call.dtype_of(b)) {
    a = call.to(a, DType::boolean);
    b = call.to(b, DType::boolean);
  }
  return call.result(call.op(op, {a, b}));
}

Status where(Call& call) {
  const ValueId condition = call.to(call.tensor("condition"), DType::boolean);
  const Operands2 x = promoted(call);
  return call.result(call.op(Op::where, {condition, x.a, x.b}));
}
Status prims_where(Call& call) {
  const ValueId condition = call.to(call.tensor("pred"), DType::boolean);
  const Operands2 x = promoted(call, "a", "b");
  return call.result(call.op(Op::where, {condition, x.a, x.b}));
}
Status where_indices(Call& call) { return call.unsupported("the shape of its result depends on the data"); }

Status masked_fill(Call& call) {
  const ValueId x = call.tensor("self");
  const ValueId mask = call.to(call.tensor("mask"), DType::boolean);
  return call.result(call.op(Op::where, {mask, operand(call, "value", call.dtype_of(x)), x}));
}

// |a - b| <= atol + rtol |b|, or equal, or both NaN where that counts
Status isclose(Call& call) {
  Formula f{call};
  const DType dtype = result_type(call, {"self", "other"});
  const ValueId exact_a = operand(call, "self", dtype), exact_b = operand(call, "other", dtype);
  const ValueId equal = call.op(Op::eq, {exact_a, exact_b});
  const ValueId a = call.to(exact_a, to_float(dtype)), b = call.to(exact_b, to_float(dtype));
  const ValueId distance = f.un(Op::abs, f.sub(a, b));
  const ValueId allowed = f.add(f.mul(f.un(Op::abs, b), call.real("rtol")), call.real("atol"));
  const ValueId finite = f.cmp(Op::lt, distance, std::numeric_limits<double>::infinity());
  ValueId close = f.either(equal, f.both(finite, call.op(Op::le, {distance, allowed})));
  if (call.flag("equal_nan") && is_float(dtype))
    close = f.either(close, f.both(f.un(Op::isnan, a), f.un(Op::isnan, b)));
  return call.result(close);
}
Status answer_is_a_bool(Call& call) {
  return call.unsupported("its result is a Python bool that depends on the data");
}

constexpr AtenRule kRules[] = {
    {"aten.eq.Tensor", compare<Op::eq>},
    {"aten.eq.Scalar", compare<Op::eq>},
    {"aten.ne.Tensor", compare<Op::ne>},
    {"aten.ne.Scalar", compare<Op::ne>},
    {"aten.not_equal.Tensor", compare<Op::ne>},
    {"aten.not_equal.Scalar", compare<Op::ne>},
    {"aten.lt.Tensor", compare<Op::lt>},
    {"aten.lt.Scalar", compare<Op::lt>},
    {"aten.less.Tensor", compare<Op::lt>},
    {"aten.less.Scalar", compare<Op::lt>},
    {"aten.le.Tensor", compare<Op::le>},
    {"aten.le.Scalar", compare<Op::le>},
    {"aten.less_equal.Tensor", compare<Op::le>},
    {"aten.less_equal.Scalar", compare<Op::le>},
    {"aten.gt.Tensor", compare<Op::gt>},
    {"aten.gt.Scalar", compare<Op::gt>},
    {"aten.greater.Tensor", compare<Op::gt>},
    {"aten.greater.Scalar", compare<Op::gt>},
    {"aten.ge.Tensor", compare<Op::ge>},
    {"aten.ge.Scalar", compare<Op::ge>},
    {"aten.greater_equal.Tensor", compare<Op::ge>},
    {"aten.greater_equal.Scalar", compare<Op::ge>},
    {"aten.logical_and.default", logical<Op::logical_and>},
    {"aten.logical_or.default", logical<Op::logical_or>},
    {"aten.logical_xor.default", logical<Op::logical_xor>},
    {"aten.bitwise_and.Tensor", bitwise<Op::bitwise_and>},
    {"aten.bitwise_and.Scalar", bitwise<Op::bitwise_and>},
    {"aten.bitwise_and.Scalar_Tensor", bitwise<Op::bitwise_and>},
    {"aten.__and__.Tensor", bitwise<Op::bitwise_and>},
    {"aten.__and__.Scalar", bitwise<Op::bitwise_and>},
    {"aten.bitwise_or.Tensor", bitwise<Op::bitwise_or>},
    {"aten.bitwise_or.Scalar", bitwise<Op::bitwise_or>},
    {"aten.bitwise_or.Scalar_Tensor", bitwise<Op::bitwise_or>},
    {"aten.__or__.Tensor", bitwise<Op::bitwise_or>},
    {"aten.__or__.Scalar", bitwise<Op::bitwise_or>},
    {"aten.bitwise_xor.Tensor", bitwise<Op::bitwise_xor>},
    {"aten.bitwise_xor.Scalar", bitwise<Op::bitwise_xor>},
    {"aten.bitwise_xor.Scalar_Tensor", bitwise<Op::bitwise_xor>},
    {"aten.__xor__.Tensor", bitwise<Op::bitwise_xor>},
    {"aten.__xor__.Scalar", bitwise<Op::bitwise_xor>},
    {"aten.bitwise_left_shift.Tensor", shift<Op::shift_left>},
    {"aten.bitwise_left_shift.Tensor_Scalar", shift<Op::shift_left>},
    {"aten.bitwise_left_shift.Scalar_Tensor", shift<Op::shift_left>},
    {"aten.__lshift__.Tensor", shift<Op::shift_left>},
    {"aten.__lshift__.Scalar", shift<Op::shift_left>},
    {"aten.bitwise_right_shift.Tensor", shift<Op::shift_right>},
    {"aten.bitwise_right_shift.Tensor_Scalar", shift<Op::shift_right>},
    {"aten.bitwise_right_shift.Scalar_Tensor", shift<Op::shift_right>},
    {"aten.__rshift__.Tensor", shift<Op::shift_right>},
    {"aten.__rshift__.Scalar", shift<Op::shift_right>},
    {"aten.where.self", where},
    {"aten.where.Scalar", where},
    {"aten.where.ScalarSelf", where},
    {"aten.where.ScalarOther", where},
    {"prims.where.default", prims_where},
    {"aten.where.default", where_indices},
    {"prims.eq.default", compare<Op::eq>},
    {"prims.ne.default", compare<Op::ne>},
    {"prims.lt.default", compare<Op::lt>},
    {"prims.le.default", compare<Op::le>},
    {"prims.gt.default", compare<Op::gt>},
    {"prims.ge.default", compare<Op::ge>},
    {"prims.bitwise_and.default", bitwise<Op::bitwise_and>},
    {"prims.bitwise_or.default", bitwise<Op::bitwise_or>},
    {"prims.bitwise_xor.default", bitwise<Op::bitwise_xor>},
    {"prims.shift_left.default", shift<Op::shift_left>},
    {"prims.shift_right_arithmetic.default", shift<Op::shift_right>},
    {"aten.masked_fill.Scalar", masked_fill},
    {"aten.masked_fill.Tensor", masked_fill},
    {"aten.isclose.default", isclose},
    {"aten.allclose.default", answer_is_a_bool},
    {"aten.equal.default", answer_is_a_bool},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> logic_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
