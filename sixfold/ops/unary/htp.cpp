// Elementwise ops of one tensor as others that the NPU has. It computes floats in 16 bits: formulas keep
// their parts below 65504 and above 6e-8 where the result is.
#include "sixfold/rewrite/htp.h"

#include <cmath>

namespace sixfold::htp {
namespace {

Term softplus_of(const Term& x) {
  return x.apply(Op::relu) + (-(x.apply(Op::abs))).apply(Op::exp).apply(Op::log1p);
}

// log(2 a) where a^2 would overflow, in halves
Term area(const Term& a, double sign, bool halves) {
  const Term small = (a + (a * a + sign).apply(Op::sqrt)).apply(Op::log);
  if (!halves) return small;
  return where(a.apply(Op::gt, a.number(200)), a.apply(Op::log) + M_LN2, small);
}

bool is_bound(const Attr* a) { return a && !std::holds_alternative<std::monostate>(*a); }

}  // namespace

Match unary_formula(Htp& h) {
  const Term x = h.term();
  switch (h.op()) {
    case Op::exp2:
      return h.result((x * M_LN2).apply(Op::exp));
    case Op::expm1:
      return h.result(x.apply(Op::exp) - 1.0);
    case Op::log1p:
      return h.result((x + 1.0).apply(Op::log));
    case Op::log2:
      return h.result(x.apply(Op::log) * M_LOG2E);
    case Op::log10:
      return h.result(x.apply(Op::log) * M_LOG10E);
    case Op::reciprocal:
      return h.result(x.number(1) / x);
    case Op::tan:
      return h.result(x.apply(Op::sin) / x.apply(Op::cos));
    case Op::asin:  // the device has it in fixed point only
      if (h.target.quantizes || h.graph.value(h.in()).encoding) return no_match("the device has it");
      // (1 - x)(1 + x) keeps its digits near 1, 1 - x^2 does not; the arc tangent of an infinity is wrong on
      // the device, so the ends are kept away from it.
      return h.result((x / ((1.0 - x) * (x + 1.0)).apply(Op::sqrt).apply(Op::maximum, x.number(1.0 / 4096)))
                          .apply(Op::atan));
    case Op::acos:
      return h.result(M_PI_2 - x.apply(Op::asin));
    case Op::sinh:
      return h.result((x.apply(Op::exp) - (-x).apply(Op::exp)) * 0.5);
    case Op::cosh:
      return h.result((x.apply(Op::exp) + (-x).apply(Op::exp)) * 0.5);
    case Op::asinh:
      return h.result(x.apply(Op::sign) * area(x.apply(Op::abs), 1, !h.target.quantizes));
    case Op::acosh:
      return h.result(area(x, -1, !h.target.quantizes));
    case Op::atanh:
      return h.result(((x + 1.0) / (1.0 - x)).apply(Op::log) * 0.5);
    case Op::erf: {
      // tanh(2 / sqrt(pi) (x + 0.0894 x^3)) is within 4e-4 of it: the step of 16-bit floats near 1.
      const Term y = clamped(x, -4.0, 4.0);
      return h.result((y * (y * y * 0.0894 + 1.0) * (2 / std::sqrt(M_PI))).apply(Op::tanh));
    }
    case Op::trunc:
      return h.result(x.apply(Op::sign) * x.apply(Op::abs).apply(Op::floor));
    case Op::silu:
      return h.result(x * x.apply(Op::sigmoid));
    case Op::mish:
      return h.result(x * softplus_of(x).apply(Op::tanh));
    default:
      return no_match("the device has it");
  }
}

// max(x, 0) + log(1 + exp(-|beta x|)) / beta: exp(x) itself overflows from 11.1 on.
Match softplus(Htp& h) {
  const Term x = h.term();
  const double beta = h.attrs().real("beta"), threshold = h.attrs().real("threshold");
  const Term scaled = beta == 1 ? x : x * beta;
  const Term soft = beta == 1 ? softplus_of(x) : softplus_of(scaled) / beta;
  if (threshold >= 10) return h.result(soft);  // beyond it the two differ by less than 5e-5
  return h.result(sixfold::where(scaled.apply(Op::gt, x.number(threshold)), x, soft));
}

// scale * (x > 0 ? x : alpha (exp(input_scale x) - 1))
Match elu(Htp& h) {
  const double alpha = h.attrs().real("alpha"), scale = h.attrs().real("scale"),
               input_scale = h.attrs().real("input_scale");
  if (scale == 1 && input_scale == 1) return no_match("the device has it");
  const Term x = h.term();
  const auto plain = [&](const Term& y) {
    return y.apply(Op::elu, {{"alpha", alpha}, {"scale", 1.0}, {"input_scale", 1.0}});
  };
  Term y = plain(x);
  if (input_scale != 1) y = sixfold::where(x.apply(Op::gt, x.number(0)), x, plain(x * input_scale));
  return h.result(scale == 1 ? y : y * scale);
}

// Integers keep all their digits in minimum and maximum; ReluMinMax takes float bounds.
Match clamp(Htp& h) {
  const Attr *min = h.attrs().find("min"), *max = h.attrs().find("max");
  const DType dtype = h.dtype(h.in());
  if (!is_bound(min) && !is_bound(max)) return h.result(h.in());
  if (is_float(dtype)) return no_match("the device has it");
  if (!is_integer(dtype)) return h.unsupported("a clamp of bools");
  Term x = h.term();
  const auto number = [&](const char* name, double (*whole)(double)) {
    return Term(h, h.patch.scalar(static_cast<int64_t>(whole(h.attrs().real(name))), dtype));
  };
  if (is_bound(min)) x = x.apply(Op::maximum, number("min", std::ceil));
  if (is_bound(max)) x = x.apply(Op::minimum, number("max", std::floor));
  return h.result(x);
}

Match bitwise_not(Htp& h) {
  const Term x = h.term();
  if (x.dtype() == DType::boolean) return h.result(x.apply(Op::logical_not));
  return h.result(Term(h, h.patch.scalar(int64_t{-1}, x.dtype())) - x);  // two's complement
}

Match logical_not(Htp& h) {
  const Term x = h.term();
  if (x.dtype() == DType::boolean) return no_match("the device has it");
  return h.result(x.apply(Op::eq, x.number(0)));
}

Match to(Htp& h) {
  const Term x = h.term();
  if (h.attrs().dtype("dtype") == DType::boolean) return h.result(x.apply(Op::ne, x.number(0)));
  return no_match("the device has it");
}

// Integers: the device has abs only.
Match integer_unary(Htp& h) {
  const Term x = h.term();
  if (!is_integer(x.dtype())) return no_match("the device has it");
  const auto number = [&](int64_t n) { return Term(h, h.patch.scalar(n, x.dtype())); };
  switch (h.op()) {
    case Op::neg:
      return h.result(number(0) - x);
    case Op::relu:
      return h.result(x.apply(Op::maximum, number(0)));
    case Op::sign:
      return h.result(x.apply(Op::maximum, number(-1)).apply(Op::minimum, number(1)));
    default:  // ceil, floor, round
      return h.result(x);
  }
}

}  // namespace sixfold::htp
