#include <limits>
#include <numbers>

#include "sixfold/ops/elementwise.h"
#include "sixfold/ops/rule_table.h"

namespace sixfold::aten {
namespace {

// Both operands in the dtype of the formula; `result` has what the call gives.
struct WideOperands {
  ValueId a, b;
  DType result;
};
WideOperands wide_operands(Call& call) {
  const DType dtype = to_float(result_type(call, {"self", "other"}));
  return {operand(call, "self", wide(dtype)), operand(call, "other", wide(dtype)), dtype};
}

// x log(y), 0 where x is 0 and y not NaN
template <Op log>
Status xlogy(Call& call) {
  const WideOperands x = wide_operands(call);
  Formula f{call};
  const ValueId product = f.mul(x.a, f.un(log, x.b));
  const ValueId zero = f.both(f.cmp(Op::eq, x.a, 0), f.un(Op::logical_not, f.un(Op::isnan, x.b)));
  return call.result(call.to(f.where(zero, f.num(0, x.a), product), x.result));
}

// sqrt(a^2 + b^2); the squares of floats do not overflow in double. An infinity wins over NaN.
Status hypot(Call& call) {
  const Operands2 x = promoted_float(call);
  Formula f{call};
  const ValueId a = call.to(x.a, DType::f64), b = call.to(x.b, DType::f64);
  const ValueId y = call.to(f.un(Op::sqrt, f.add(f.mul(a, a), f.mul(b, b))), x.dtype);
  const ValueId infinite = f.either(f.un(Op::isinf, x.a), f.un(Op::isinf, x.b));
  return call.result(f.where(infinite, f.num(std::numeric_limits<double>::infinity(), y), y));
}

// max(a, b) + log(1 + e^-|a - b|). Equal infinities have no difference: they are the result.
template <Op exponential>
Status logaddexp(Call& call) {
  const WideOperands x = wide_operands(call);
  Formula f{call};
  const ValueId gap = f.un(exponential, f.un(Op::neg, f.un(Op::abs, f.sub(x.a, x.b))));
  ValueId tail = f.un(Op::log1p, gap);
  if (exponential == Op::exp2) tail = f.mul(tail, std::numbers::log2e);
  const ValueId sum = f.add(call.op(Op::maximum, {x.a, x.b}), tail);
  const ValueId same = f.both(f.un(Op::isinf, x.a), call.op(Op::eq, {x.a, x.b}));
  return call.result(call.to(f.where(same, x.a, sum), x.result));
}

// |a| with the sign of b
Status copysign(Call& call) {
  const Operands2 x = promoted_float(call);
  Formula f{call};
  const ValueId size = f.un(Op::abs, x.a);
  return call.result(f.where(is_sign_negative(call, x.b), f.un(Op::neg, size), size));
}

// 0 below zero, 1 above, values at zero
Status heaviside(Call& call) {
  const Operands2 x = promoted(call, "self", "values");
  const ValueId zero = call.scalar(int64_t{0}, x.dtype);
  const ValueId step = call.to(call.op(Op::gt, {x.a, zero}), x.dtype);
  return call.result(call.op(Op::where, {call.op(Op::eq, {x.a, zero}), x.b, step}));
}

// As minimum and maximum, but a NaN gives way to the other operand.
template <Op op>
Status number_wins(Call& call) {
  const Operands2 x = promoted(call);
  Formula f{call};
  const ValueId y = call.op(op, {x.a, x.b});
  if (!is_float(x.dtype)) return call.result(y);
  return call.result(f.where(f.un(Op::isnan, x.a), x.b, f.where(f.un(Op::isnan, x.b), x.a, y)));
}

// self * 2^other, the power rounded to the result's dtype first, as torch does
Status ldexp(Call& call) {
  const Operands2 x = promoted_float(call);
  return call.result(call.op(Op::mul, {x.a, call.op(Op::exp2, {x.b})}));
}

constexpr AtenRule kRules[] = {
    {"aten.xlogy.Tensor", xlogy<Op::log>},
    {"aten.xlogy.Scalar_Self", xlogy<Op::log>},
    {"aten.xlogy.Scalar_Other", xlogy<Op::log>},
    {"aten.special_xlogy.default", xlogy<Op::log>},
    {"aten.special_xlogy.self_scalar", xlogy<Op::log>},
    {"aten.special_xlogy.other_scalar", xlogy<Op::log>},
    {"aten.special_xlog1py.default", xlogy<Op::log1p>},
    {"aten.special_xlog1py.self_scalar", xlogy<Op::log1p>},
    {"aten.special_xlog1py.other_scalar", xlogy<Op::log1p>},
    {"aten.hypot.default", hypot},
    {"aten.logaddexp.default", logaddexp<Op::exp>},
    {"aten.logaddexp2.default", logaddexp<Op::exp2>},
    {"aten.copysign.Tensor", copysign},
    {"aten.copysign.Scalar", copysign},
    {"aten.heaviside.default", heaviside},
    {"aten.fmin.default", number_wins<Op::minimum>},
    {"aten.fmax.default", number_wins<Op::maximum>},
    {"aten.ldexp.Tensor", ldexp},
    {"prims.hypot.default", hypot},
    {"prims.fmin.default", number_wins<Op::minimum>},
    {"prims.fmax.default", number_wins<Op::maximum>},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> binary_function_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
