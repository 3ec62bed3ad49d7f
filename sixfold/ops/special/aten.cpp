#include "sixfold/ops/aten.h"

#include <algorithm>
#include <cmath>

#include "sixfold/ops/elementwise.h"
#include "sixfold/ops/rule_table.h"
#include "sixfold/ops/shapes.h"

namespace sixfold::aten {
namespace {

template <size_t n>
struct Name {
  constexpr Name(const char (&name)[n]) {
    std::copy_n(name, n, text);
  }  // NOLINT(google-explicit-constructor)
  char text[n];
};

ValueId special(Call& call, std::string_view function, std::vector<ValueId> operands) {
  return call.op(Op::special, std::move(operands), {{"function", std::string(function)}});
}
// Both operands in the shape that they broadcast to.
ValueId special_pair(Call& call, std::string_view function, ValueId a, ValueId b) {
  if (!call.ok()) return kNoValue;
  auto shape = broadcast(call.dims_of(a), call.dims_of(b));
  if (!shape.ok()) {
    call.fail(shape.take_error());
    return kNoValue;
  }
  for (ValueId* x : {&a, &b})
    if (call.dims_of(*x) != *shape) *x = call.op(Op::expand, {*x}, {{"shape", *shape}});
  return special(call, function, {a, b});
}

// f(self), or f(x)
template <Name name>
Status function(Call& call) {
  return call.result(special(call, name.text, {float_operand(call, call.attr("self") ? "self" : "x")}));
}

template <Name name>
Status pair(Call& call, std::string_view a, std::string_view b) {
  const Operands2 x = promoted_float(call, a, b);
  return call.result(special_pair(call, name.text, x.a, x.b));
}
template <Name name>
Status function2(Call& call) {
  return pair<name>(call, "self", "other");
}
template <Name name>
Status polynomial(Call& call) {
  return pair<name>(call, "x", "n");
}

// (-1)^(n + 1) n! zeta(n + 1, x), and the digamma function for n = 0
Status polygamma(Call& call) {
  const ValueId x = float_operand(call, "self");
  const int64_t n = call.integer("n");
  if (n < 0) return invalid_model("polygamma of order ", n);
  if (n == 0) return call.result(special(call, "digamma", {x}));
  Formula f{call};
  const ValueId y = call.to(x, DType::f64), order = call.scalar(static_cast<double>(n + 1), DType::f64);
  const double factor = (n % 2 == 0 ? -1 : 1) * std::tgamma(static_cast<double>(n) + 1);
  return call.result(call.to(f.mul(special_pair(call, "zeta", order, y), factor), call.dtype_of(x)));
}

Status frexp(Call& call) {
  const ValueId x = call.tensor("self");
  return call.results({special(call, "mantissa", {x}), call.to(special(call, "exponent", {x}), DType::i32)});
}

// The next number depends on the dtype: a half rounded from a float's neighbour is no neighbour.
Status nextafter(Call& call) {
  const Operands2 x = promoted(call);
  if (is_half(x.dtype)) return call.unsupported("neighbours of half-precision numbers");
  return call.result(special_pair(call, "nextafter", x.a, x.b));
}

Status gcd(Call& call) {
  const Operands2 x = promoted(call);
  return call.result(special_pair(call, "gcd", x.a, x.b));
}
// |a / gcd b|, 0 where both are 0
Status lcm(Call& call) {
  const Operands2 x = promoted(call);
  const ValueId common = special_pair(call, "gcd", x.a, x.b);
  const ValueId zero = call.scalar(int64_t{0}, x.dtype), one = call.scalar(int64_t{1}, x.dtype);
  const ValueId divisor = call.op(Op::where, {call.op(Op::eq, {common, zero}), one, common});
  const ValueId quotient = call.op(Op::div, {x.a, divisor}, {{"rounding", std::string("trunc")}});
  return call.result(call.op(Op::abs, {call.op(Op::mul, {quotient, x.b})}));
}

#define POLYNOMIAL(target, name)                                \
  {"aten.special_" target ".default", polynomial<name>},        \
      {"aten.special_" target ".x_scalar", polynomial<name>}, { \
    "aten.special_" target ".n_scalar", polynomial<name>        \
  }

constexpr AtenRule kRules[] = {
    {"aten.digamma.default", function<"digamma">},
    {"aten.special_digamma.default", function<"digamma">},
    {"aten.special_psi.default", function<"digamma">},
    {"aten.polygamma.default", polygamma},
    {"aten.special_polygamma.default", polygamma},
    {"aten.i0.default", function<"i0">},
    {"aten.special_i0.default", function<"i0">},
    {"aten.special_i0e.default", function<"i0e">},
    {"aten.special_i1.default", function<"i1">},
    {"aten.special_i1e.default", function<"i1e">},
    {"aten.special_erfcx.default", function<"erfcx">},
    {"aten.special_log_ndtr.default", function<"log_ndtr">},
    {"aten.special_airy_ai.default", function<"airy">},
    {"aten.special_bessel_j0.default", function<"bessel_j0">},
    {"aten.special_bessel_j1.default", function<"bessel_j1">},
    {"aten.special_bessel_y0.default", function<"bessel_y0">},
    {"aten.special_bessel_y1.default", function<"bessel_y1">},
    {"aten.special_modified_bessel_i0.default", function<"i0">},
    {"aten.special_modified_bessel_i1.default", function<"i1">},
    {"aten.special_modified_bessel_k0.default", function<"bessel_k0">},
    {"aten.special_modified_bessel_k1.default", function<"bessel_k1">},
    {"aten.special_scaled_modified_bessel_k0.default", function<"bessel_k0e">},
    {"aten.special_scaled_modified_bessel_k1.default", function<"bessel_k1e">},
    {"aten.special_spherical_bessel_j0.default", function<"spherical_j0">},
    {"aten.special_zeta.default", function2<"zeta">},
    {"aten.special_zeta.other_scalar", function2<"zeta">},
    {"aten.special_zeta.self_scalar", function2<"zeta">},
    {"aten.igamma.default", function2<"igamma">},
    {"aten.igammac.default", function2<"igammac">},
    {"aten.special_gammainc.default", function2<"igamma">},
    {"aten.special_gammaincc.default", function2<"igammac">},
    POLYNOMIAL("chebyshev_polynomial_t", "chebyshev_t"),
    POLYNOMIAL("chebyshev_polynomial_u", "chebyshev_u"),
    POLYNOMIAL("chebyshev_polynomial_v", "chebyshev_v"),
    POLYNOMIAL("chebyshev_polynomial_w", "chebyshev_w"),
    POLYNOMIAL("shifted_chebyshev_polynomial_t", "shifted_chebyshev_t"),
    POLYNOMIAL("shifted_chebyshev_polynomial_u", "shifted_chebyshev_u"),
    POLYNOMIAL("shifted_chebyshev_polynomial_v", "shifted_chebyshev_v"),
    POLYNOMIAL("shifted_chebyshev_polynomial_w", "shifted_chebyshev_w"),
    POLYNOMIAL("hermite_polynomial_h", "hermite_h"),
    POLYNOMIAL("hermite_polynomial_he", "hermite_he"),
    POLYNOMIAL("laguerre_polynomial_l", "laguerre"),
    POLYNOMIAL("legendre_polynomial_p", "legendre"),
    {"aten.frexp.Tensor", frexp},
    {"aten.nextafter.default", nextafter},
    {"aten.gcd.default", gcd},
    {"aten.lcm.default", lcm},
    {"prims.digamma.default", function<"digamma">},
    {"prims.bessel_i0.default", function<"i0">},
    {"prims.bessel_i0e.default", function<"i0e">},
    {"prims.bessel_i1.default", function<"i1">},
    {"prims.bessel_i1e.default", function<"i1e">},
    {"prims.bessel_j0.default", function<"bessel_j0">},
    {"prims.bessel_j1.default", function<"bessel_j1">},
    {"prims.spherical_bessel_j0.default", function<"spherical_j0">},
    {"prims.erfcx.default", function<"erfcx">},
    {"prims.cbrt.default", function<"cbrt">},
    {"prims.zeta.default", function2<"zeta">},
    {"prims.igamma.default", function2<"igamma">},
    {"prims.igammac.default", function2<"igammac">},
    {"prims.frexp.default", frexp},
    {"prims.nextafter.default", nextafter},
    {"prims.gcd.default", gcd},
};
#undef POLYNOMIAL

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> special_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
