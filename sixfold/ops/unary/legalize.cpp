// Elementwise ops of one tensor as kernels. Formulas of half tensors are computed in float and rounded once,
// as torch does.
#include "sixfold/ops/legalize.h"

#include <cmath>
#include <limits>

namespace sixfold::legalize {
namespace {

// A bound as the kernel takes it: for integers a whole number, and none where it is outside of the dtype,
// since it bounds nothing there.
Attr bound_within(const Attr& bound, DType dtype, double (*whole)(double)) {
  if (is_float(dtype) || std::holds_alternative<std::monostate>(bound)) return bound;
  const Dim* n = std::get_if<Dim>(&bound);
  const double* x = std::get_if<double>(&bound);
  const double at = n && n->is_static() ? static_cast<double>(n->value()) : x ? whole(*x) : 0;
  return with_type(dtype, [&](auto tag) -> Attr {
    using T = decltype(tag);
    if constexpr (std::is_integral_v<T>) {
      using Limits = std::numeric_limits<T>;
      if (!(at >= static_cast<double>(Limits::min()) && at <= static_cast<double>(Limits::max())) ||
          at >= 0x1p63)
        return {};
    }
    return n ? bound : Attr(Dim(static_cast<int64_t>(at)));
  });
}

Term softplus_of(const Term& x, double beta, double threshold) {
  const Term scaled = beta == 1 ? x : x * beta;
  const Term soft = scaled.apply(Op::exp).apply(Op::log1p);
  return where(scaled.apply(Op::gt, x.number(threshold)), x, beta == 1 ? soft : soft / beta);
}

// Giles' approximation of the inverse error function, then two Newton steps, which double its digits each.
Term erfinv_of(const Term& x) {
  const Term w = -(((1.0 - x) * (x + 1.0)).apply(Op::log));
  const auto poly = [](const Term& t, std::initializer_list<double> c) {
    Term p = t.number(*c.begin());
    for (const double* k = c.begin() + 1; k != c.end(); ++k) p = p * t + *k;
    return p;
  };
  const Term near = poly(w - 2.5, {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06,
                                   0.00021858087, -0.00125372503, -0.00417768164, 0.246640727, 1.50140941});
  const Term far =
      poly(w.apply(Op::sqrt) - 3.0, {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844,
                                     0.00573950773, -0.0076224613, 0.00943887047, 1.00167406, 2.83297682});
  Term y = where(w.apply(Op::lt, w.number(5)), near, far) * x;
  for (int i = 0; i < 2; ++i) {
    const Term slope = (-(y * y)).apply(Op::exp) * (2 / std::sqrt(M_PI));
    y = y - (y.apply(Op::erf) - x) / slope;
  }
  // At +-1 the formula is inf - inf; the result is x * inf.
  return where(x.apply(Op::abs).apply(Op::lt, x.number(1)), y,
               where(x.apply(Op::abs).apply(Op::eq, x.number(1)), x * INFINITY, x.number(NAN)));
}

// Lanczos' formula (g = 7, nine terms), reflected for x < 0.5.
Term lgamma_of(const Term& x) {
  constexpr double kTerms[] = {676.5203681218851,     -1259.1392167224028,  771.32342877765313,
                               -176.61502916214059,   12.507343278686905,   -0.13857109526572012,
                               9.9843695780195716e-6, 1.5056327351493116e-7};
  const Term low = x.apply(Op::lt, x.number(0.5));
  const Term z = where(low, 1.0 - x, x) - 1.0;
  Term sum = x.number(0.99999999999980993);
  for (size_t i = 0; i < std::size(kTerms); ++i)
    sum = sum + kTerms[i] * (z + static_cast<double>(i + 1)).apply(Op::reciprocal);
  const Term t = z + 7.5;
  const Term high = (z + 0.5) * t.apply(Op::log) - t + sum.apply(Op::log) + std::log(2 * M_PI) / 2;
  const Term fraction = x - x.apply(Op::floor);
  const Term reflected =
      std::log(M_PI) - (fraction * M_PI).apply(Op::sin).apply(Op::abs).apply(Op::log) - high;
  // Poles at 0, -1, -2, ...; +-inf gives inf.
  const Term pole = low.apply(Op::logical_and, fraction.apply(Op::eq, x.number(0)));
  const Term infinite = pole.apply(Op::logical_or, x.apply(Op::isinf));
  return where(infinite, x.number(INFINITY), where(low, reflected, high));
}

}  // namespace

Match unary(Legal& legal) {
  // The kernel's sign of NaN is NaN, torch's is 0.
  if (legal.op() == Op::sign && is_float(legal.dtype(legal.in()))) {
    const Term x = legal.term();
    const Term sign(legal, legal.add_call("aten.sign.default", {{"self", x}}, legal.out_type()));
    return legal.result(where(x.apply(Op::isnan), x.number(0), sign));
  }
  return legal.call(cat("aten.", legal.op(), ".default"), {{"self", legal.in()}});
}

Match unary_formula(Legal& legal) {
  const DType dtype = legal.dtype(legal.in());
  if (is_half(dtype)) return legal.computed_in(DType::f32);
  const Term x = legal.term();
  switch (legal.op()) {
    case Op::silu:
      return legal.result(x * x.apply(Op::sigmoid));
    case Op::mish:
      return legal.result(x * softplus_of(x, 1, 20).apply(Op::tanh));
    case Op::hardsigmoid:
      return legal.result(clamped(x + 3, 0.0, 6.0) / 6);
    case Op::hardswish:
      return legal.result(x * clamped(x + 3, 0.0, 6.0) / 6);
    case Op::softplus:
      return legal.result(softplus_of(x, legal.attrs().real("beta"), legal.attrs().real("threshold")));
    case Op::exp2:
      return legal.call("aten.pow.Scalar", {{"self", Attr(2.0)}, {"exponent", legal.in()}});
    case Op::erfinv:
      return dtype == DType::f32 ? legal.computed_in(DType::f64) : legal.result(erfinv_of(x));
    case Op::lgamma:
      return dtype == DType::f32 ? legal.computed_in(DType::f64) : legal.result(lgamma_of(x));
    default:
      return fail(Code::Internal, legal.op(), " has no formula");
  }
}

Match gelu(Legal& legal) {
  return legal.call("aten.gelu.default",
                    {{"self", legal.in()}, {"approximate", legal.attrs().text("approximate")}});
}
Match elu(Legal& legal) {
  return legal.call("aten.elu.default", {{"self", legal.in()},
                                         {"alpha", legal.attrs().real("alpha")},
                                         {"scale", legal.attrs().real("scale")},
                                         {"input_scale", legal.attrs().real("input_scale")}});
}
Match leaky_relu(Legal& legal) {
  return legal.call("aten.leaky_relu.default",
                    {{"self", legal.in()}, {"negative_slope", legal.attrs().real("slope")}});
}

Match clamp(Legal& legal) {
  const DType dtype = legal.dtype(legal.in());
  const Attr min = bound_within(*legal.attrs().find("min"), dtype, std::ceil),
             max = bound_within(*legal.attrs().find("max"), dtype, std::floor);
  const auto none = [](const Attr& a) { return std::holds_alternative<std::monostate>(a); };
  if (none(min) && none(max)) return legal.result(legal.in());
  return legal.call("aten.clamp.default", {{"self", legal.in()}, {"min", min}, {"max", max}});
}

Match to(Legal& legal) {
  const DType dtype = legal.attrs().dtype("dtype");
  return legal.call("aten._to_copy.default", {{"self", legal.in()}, {"dtype", dtype}});
}

}  // namespace sixfold::legalize
