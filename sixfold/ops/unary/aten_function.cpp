#include <cmath>
#include <limits>
#include <numbers>

#include "sixfold/ops/elementwise.h"
#include "sixfold/ops/rule_table.h"

namespace sixfold::aten {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Integers and bool count as floats.
template <Op op>
Status function(Call& call) {
  return call.result(call.op(op, {float_operand(call, "self")}));
}

// Defined for integers as well.
template <Op op>
Status same(Call& call) {
  const ValueId x = call.tensor("self");
  if (call.dtype_of(x) == DType::boolean && (op == Op::abs || op == Op::sign)) return call.result(x);
  return call.result(call.op(op, {x}));
}

// Rounding leaves integers as they are.
template <Op op>
Status rounding(Call& call) {
  const ValueId x = call.tensor("self");
  return call.result(is_float(call.dtype_of(x)) ? call.op(op, {x}) : x);
}

Status round_decimals(Call& call) {
  const ValueId x = call.tensor("self");
  const int64_t decimals = call.integer("decimals");
  if (!is_float(call.dtype_of(x))) return call.result(x);
  if (decimals == 0) return call.result(call.op(Op::round, {x}));
  Formula f{call};
  const ValueId w = call.to(x, wide(call.dtype_of(x)));
  const double power = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  const ValueId scale = f.num(power, w);
  if (decimals > 0) return narrowed(call, f.div(f.un(Op::round, f.mul(w, scale)), scale));
  return narrowed(call, f.mul(f.un(Op::round, f.div(w, scale)), scale));
}

Status square(Call& call) {
  ValueId x = call.tensor("self");
  if (call.dtype_of(x) == DType::boolean) x = call.to(x, DType::i64);
  return call.result(call.op(Op::mul, {x, x}));
}

Status frac(Call& call) {
  const ValueId x = call.tensor("self");
  return call.result(Formula{call}.sub(x, call.op(Op::trunc, {x})));
}

Status deg2rad(Call& call) {
  return narrowed(call, Formula{call}.mul(wide_operand(call, "self"), std::numbers::pi / 180));
}
Status rad2deg(Call& call) {
  return narrowed(call, Formula{call}.mul(wide_operand(call, "self"), 180 / std::numbers::pi));
}

// 1 - erf(x) in double: in float nothing would be left of it beyond x = 4.
ValueId erfc_of(Call& call, ValueId x) {
  Formula f{call};
  const ValueId wide = call.to(x, DType::f64);
  return call.to(f.sub(f.num(1, wide), f.un(Op::erf, wide)), call.dtype_of(x));
}
Status erfc(Call& call) { return call.result(erfc_of(call, float_operand(call, "self"))); }

// 0.5 erfc(-x / sqrt(2))
Status ndtr(Call& call) {
  Formula f{call};
  return narrowed(call,
                  f.mul(erfc_of(call, f.mul(wide_operand(call, "self"), -std::numbers::sqrt2 / 2)), 0.5));
}
// sqrt(2) erfinv(2 x - 1)
Status ndtri(Call& call) {
  Formula f{call};
  const ValueId x = float_operand(call, "self");
  const ValueId wide = f.add(f.mul(call.to(x, DType::f64), 2), -1);
  return call.result(call.to(f.mul(f.un(Op::erfinv, wide), std::numbers::sqrt2), call.dtype_of(x)));
}

// sin(pi x) / (pi x), 1 at 0
Status sinc(Call& call) {
  Formula f{call};
  const ValueId x = f.mul(wide_operand(call, "self"), std::numbers::pi);
  return narrowed(call, f.where(f.cmp(Op::eq, x, 0), f.num(1, x), f.div(f.un(Op::sin, x), x)));
}

// log(x / (1 - x)), x first clamped to [eps, 1 - eps]
Status logit(Call& call) {
  Formula f{call};
  ValueId x = wide_operand(call, "self");
  if (!call.is_none("eps")) {
    const double eps = call.real("eps");
    x = f.clamp(x, eps, 1 - eps);
  }
  return narrowed(call, f.un(Op::log, f.div(x, f.sub(f.num(1, x), x))));
}

// -x log(x); 0 at 0, -inf below
Status entr(Call& call) {
  Formula f{call};
  const ValueId x = wide_operand(call, "self");
  const ValueId inside = f.un(Op::neg, f.mul(x, f.un(Op::log, x)));
  const ValueId low = f.where(f.cmp(Op::lt, x, 0), f.num(-kInfinity, x), inside);
  return narrowed(call, f.where(f.cmp(Op::eq, x, 0), f.num(0, x), low));
}

// log of the multivariate gamma function: a sum of lgamma(x - j / 2), j < p, and a constant
Status mvlgamma(Call& call) {
  Formula f{call};
  const ValueId x = wide_operand(call, "self");
  const int64_t p = call.integer("p");
  if (p < 1 || p > 64) return call.unsupported("mvlgamma of an order beyond 1 to 64");
  ValueId sum = f.un(Op::lgamma, x);
  for (int64_t j = 1; j < p; ++j) sum = f.add(sum, f.un(Op::lgamma, f.add(x, -0.5 * static_cast<double>(j))));
  const double order = static_cast<double>(p);
  return narrowed(call, f.add(sum, order * (order - 1) / 4 * std::log(std::numbers::pi)));
}

// 0 or pi: the angle of a real number
Status angle(Call& call) {
  Formula f{call};
  const ValueId x = float_operand(call, "self");
  const ValueId angle = f.where(f.cmp(Op::lt, x, 0), f.num(std::numbers::pi, x), f.num(0, x));
  return call.result(f.where(f.un(Op::isnan, x), x, angle));
}

ValueId constant_like(Call& call, ValueId x, bool value) {
  return Formula{call}.full(call.dims_of(x), value, DType::boolean);
}

template <Op op>
Status float_predicate(Call& call) {
  const ValueId x = call.tensor("self");
  return call.result(is_float(call.dtype_of(x)) ? call.op(op, {x}) : constant_like(call, x, false));
}
Status isfinite(Call& call) {
  const ValueId x = call.tensor("self");
  if (!is_float(call.dtype_of(x))) return call.result(constant_like(call, x, true));
  return call.result(Formula{call}.cmp(Op::lt, call.op(Op::abs, {x}), kInfinity));
}
Status is_infinity(Call& call, double value) {
  const ValueId x = call.tensor("self");
  if (!is_float(call.dtype_of(x))) return call.result(constant_like(call, x, false));
  return call.result(Formula{call}.cmp(Op::eq, x, value));
}
Status isposinf(Call& call) { return is_infinity(call, kInfinity); }
Status isneginf(Call& call) { return is_infinity(call, -kInfinity); }
Status isreal(Call& call) { return call.result(constant_like(call, call.tensor("self"), true)); }

Status signbit(Call& call) {
  const ValueId x = call.tensor("self");
  if (!is_float(call.dtype_of(x))) {
    if (!is_signed(call.dtype_of(x))) return call.result(constant_like(call, x, false));
    return call.result(call.op(Op::lt, {x, call.scalar(int64_t{0}, call.dtype_of(x))}));
  }
  return call.result(is_sign_negative(call, x));
}

// NaN and infinities by numbers; the defaults are 0 and the extremes of the dtype.
Status nan_to_num(Call& call) {
  const ValueId x = call.tensor("self");
  const DType dtype = call.dtype_of(x);
  if (!is_float(dtype)) return call.result(x);
  const double largest = dtype == DType::f16    ? 65504.0
                         : dtype == DType::bf16 ? 0x1.fep127
                         : dtype == DType::f32  ? static_cast<double>(std::numeric_limits<float>::max())
                                                : std::numeric_limits<double>::max();
  Formula f{call};
  const double above = call.real_or("posinf", largest), below = call.real_or("neginf", -largest);
  ValueId y = f.where(f.cmp(Op::eq, x, kInfinity), f.num(above, x), x);
  y = f.where(f.cmp(Op::eq, x, -kInfinity), f.num(below, x), y);
  return call.result(f.where(f.un(Op::isnan, x), f.num(call.real_or("nan", 0), x), y));
}

constexpr AtenRule kRules[] = {
    {"aten.abs.default", same<Op::abs>},
    {"aten.absolute.default", same<Op::abs>},
    {"aten.neg.default", same<Op::neg>},
    {"aten.negative.default", same<Op::neg>},
    {"aten.sign.default", same<Op::sign>},
    {"aten.sgn.default", same<Op::sign>},
    {"aten.bitwise_not.default", same<Op::bitwise_not>},
    {"aten.logical_not.default", same<Op::logical_not>},
    {"aten.ceil.default", rounding<Op::ceil>},
    {"aten.floor.default", rounding<Op::floor>},
    {"aten.trunc.default", rounding<Op::trunc>},
    {"aten.fix.default", rounding<Op::trunc>},
    {"aten.round.default", rounding<Op::round>},
    {"aten.round.decimals", round_decimals},
    {"aten.special_round.default", round_decimals},
    {"aten.exp.default", function<Op::exp>},
    {"aten.exp2.default", function<Op::exp2>},
    {"aten.special_exp2.default", function<Op::exp2>},
    {"aten.expm1.default", function<Op::expm1>},
    {"aten.special_expm1.default", function<Op::expm1>},
    {"aten.log.default", function<Op::log>},
    {"aten.log1p.default", function<Op::log1p>},
    {"aten.special_log1p.default", function<Op::log1p>},
    {"aten.log2.default", function<Op::log2>},
    {"aten.log10.default", function<Op::log10>},
    {"aten.sqrt.default", function<Op::sqrt>},
    {"aten.rsqrt.default", function<Op::rsqrt>},
    {"aten.reciprocal.default", function<Op::reciprocal>},
    {"aten.sin.default", function<Op::sin>},
    {"aten.cos.default", function<Op::cos>},
    {"aten.tan.default", function<Op::tan>},
    {"aten.asin.default", function<Op::asin>},
    {"aten.acos.default", function<Op::acos>},
    {"aten.atan.default", function<Op::atan>},
    {"aten.sinh.default", function<Op::sinh>},
    {"aten.cosh.default", function<Op::cosh>},
    {"aten.asinh.default", function<Op::asinh>},
    {"aten.acosh.default", function<Op::acosh>},
    {"aten.atanh.default", function<Op::atanh>},
    {"aten.arcsin.default", function<Op::asin>},
    {"aten.arccos.default", function<Op::acos>},
    {"aten.arctan.default", function<Op::atan>},
    {"aten.arcsinh.default", function<Op::asinh>},
    {"aten.arccosh.default", function<Op::acosh>},
    {"aten.arctanh.default", function<Op::atanh>},
    {"aten.erf.default", function<Op::erf>},
    {"aten.special_erf.default", function<Op::erf>},
    {"aten.erfinv.default", function<Op::erfinv>},
    {"aten.special_erfinv.default", function<Op::erfinv>},
    {"aten.erfc.default", erfc},
    {"aten.special_erfc.default", erfc},
    {"aten.lgamma.default", function<Op::lgamma>},
    {"aten.special_gammaln.default", function<Op::lgamma>},
    {"aten.special_ndtr.default", ndtr},
    {"aten.special_ndtri.default", ndtri},
    {"aten.special_entr.default", entr},
    {"aten.sinc.default", sinc},
    {"aten.special_sinc.default", sinc},
    {"aten.logit.default", logit},
    {"aten.special_logit.default", logit},
    {"aten.square.default", square},
    {"aten.frac.default", frac},
    {"aten.deg2rad.default", deg2rad},
    {"aten.rad2deg.default", rad2deg},
    {"aten.angle.default", angle},
    {"aten.isnan.default", float_predicate<Op::isnan>},
    {"aten.isinf.default", float_predicate<Op::isinf>},
    {"aten.isfinite.default", isfinite},
    {"aten.isposinf.default", isposinf},
    {"aten.isneginf.default", isneginf},
    {"aten.isreal.default", isreal},
    {"aten.signbit.default", signbit},
    {"aten.nan_to_num.default", nan_to_num},
    {"prims.abs.default", same<Op::abs>},
    {"prims.neg.default", same<Op::neg>},
    {"prims.sign.default", same<Op::sign>},
    {"prims.bitwise_not.default", same<Op::bitwise_not>},
    {"prims.ceil.default", rounding<Op::ceil>},
    {"prims.floor.default", rounding<Op::floor>},
    {"prims.trunc.default", rounding<Op::trunc>},
    {"prims.round.default", rounding<Op::round>},
    {"prims.exp.default", function<Op::exp>},
    {"prims.exp2.default", function<Op::exp2>},
    {"prims.expm1.default", function<Op::expm1>},
    {"prims.log.default", function<Op::log>},
    {"prims.log1p.default", function<Op::log1p>},
    {"prims.log2.default", function<Op::log2>},
    {"prims.log10.default", function<Op::log10>},
    {"prims.sqrt.default", function<Op::sqrt>},
    {"prims.rsqrt.default", function<Op::rsqrt>},
    {"prims.reciprocal.default", function<Op::reciprocal>},
    {"prims.sin.default", function<Op::sin>},
    {"prims.cos.default", function<Op::cos>},
    {"prims.tan.default", function<Op::tan>},
    {"prims.asin.default", function<Op::asin>},
    {"prims.acos.default", function<Op::acos>},
    {"prims.atan.default", function<Op::atan>},
    {"prims.sinh.default", function<Op::sinh>},
    {"prims.cosh.default", function<Op::cosh>},
    {"prims.asinh.default", function<Op::asinh>},
    {"prims.acosh.default", function<Op::acosh>},
    {"prims.atanh.default", function<Op::atanh>},
    {"prims.tanh.default", function<Op::tanh>},
    {"prims.erf.default", function<Op::erf>},
    {"prims.lgamma.default", function<Op::lgamma>},
    {"prims.erf_inv.default", function<Op::erfinv>},
    {"prims.erfc.default", erfc},
    {"prims.ndtri.default", ndtri},
    {"prims.isfinite.default", isfinite},
    {"prims.signbit.default", signbit},
    {"aten.mvlgamma.default", mvlgamma},
    {"aten.special_multigammaln.default", mvlgamma},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> function_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
