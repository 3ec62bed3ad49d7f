// Elementwise ops of two or three tensors as others that the NPU has. Operands that are computed get the
// result's rank, so that an axis is the same axis in all of them.
#include "sixfold/rewrite/htp.h"

#include <cmath>

namespace sixfold::htp {
namespace {

// The node with every computed operand of the result's rank; nothing when they are.
Match full_rank(Htp& h) {
  const int64_t rank = static_cast<int64_t>(h.out_type().rank());
  std::vector<ValueId> inputs = h.node().inputs;
  bool changed = false;
  for (ValueId& v : inputs) {
    if (!v.valid() || h.constant_data(v) || h.rank(v) == rank) continue;
    Dims d = h.dims(v);
    d.insert(d.begin(), static_cast<size_t>(rank) - d.size(), Dim(1));
    v = h.reshape(v, std::move(d));
    changed = true;
  }
  if (!changed) return no_match("the device has it");
  return h.result(h.add(h.op(), std::move(inputs), h.attrs()));
}

Term nonzero(const Term& x) { return x.dtype() == DType::boolean ? x : x.apply(Op::ne, x.number(0)); }

Term negated(const Term& x) { return x.apply(Op::logical_not); }

// Arithmetic and comparisons of bools are logic.
Match logic_of_bools(Htp& h) {
  const Term a = h.term(0), b = h.term(1);
  switch (h.op()) {
    case Op::add:
    case Op::maximum:
      return h.result(a.apply(Op::logical_or, b));
    case Op::mul:
    case Op::minimum:
      return h.result(a.apply(Op::logical_and, b));
    case Op::ne:
      return h.result(a.apply(Op::logical_xor, b));
    case Op::eq:
      return h.result(negated(a.apply(Op::logical_xor, b)));
    case Op::lt:
      return h.result(negated(a).apply(Op::logical_and, b));
    case Op::le:
      return h.result(negated(a).apply(Op::logical_or, b));
    case Op::gt:
      return h.result(a.apply(Op::logical_and, negated(b)));
    case Op::ge:
      return h.result(a.apply(Op::logical_or, negated(b)));
    default:
      return h.unsupported("it is not defined for bools");
  }
}

// One number for all elements, and whether it is whole.
const Tensor* single(const Htp& h, size_t i) {
  const Tensor* t = h.constant_data(h.in(i));
  return t && t->count() == 1 ? t : nullptr;
}

}  // namespace

Match binary(Htp& h) {
  if (h.dtype(h.in(0)) == DType::boolean) return logic_of_bools(h);
  return full_rank(h);
}

Match div(Htp& h) {
  const Term a = h.term(0), b = h.term(1);
  const std::string& rounding = h.attrs().text("rounding");
  if (rounding == "none") return full_rank(h);
  if (is_float(a.dtype())) return h.result((a / b).apply(rounding == "floor" ? Op::floor : Op::trunc));
  // The device's division of integers drops the fraction, but rounds down where the divisor is a positive
  // power of two: sizes are divided, which are the same either way.  [htp.div.1]
  if (rounding == "trunc") {
    const Node* before = h.graph.producer(h.in(0));
    if (before && before->op == Op::abs) return full_rank(h);
    const Term sign = a.apply(Op::sign) * b.apply(Op::sign);
    return h.result(sign * a.apply(Op::abs).apply(Op::div, b.apply(Op::abs), {{"rounding", "trunc"}}));
  }
  const Term q = a.apply(Op::div, b, {{"rounding", "trunc"}}), zero = a.number(0);
  const Term inexact = (q * b).apply(Op::ne, a);
  const Term negative = a.apply(Op::lt, zero).apply(Op::logical_xor, b.apply(Op::lt, zero));
  return h.result(sixfold::where(inexact.apply(Op::logical_and, negative), q - 1.0, q));
}

// a - b * floor(a / b), a - b * trunc(a / b). A quotient that 16 bits round up to a whole number is one too
// many, so what is left is brought back into the range it must have.
Match binary_formula(Htp& h) {
  const Term a = h.term(0), b = h.term(1);
  switch (h.op()) {
    case Op::remainder: {
      Term r = a - a.apply(Op::div, b, {{"rounding", "floor"}}) * b;
      if (!is_float(a.dtype())) return h.result(r);
      r = sixfold::where((r * b).apply(Op::lt, r.number(0)), r + b, r);
      return h.result(sixfold::where(r.apply(Op::abs).apply(Op::ge, b.apply(Op::abs)), r - b, r));
    }
    case Op::fmod: {
      const Term r = a - a.apply(Op::div, b, {{"rounding", "trunc"}}) * b;
      if (!is_float(a.dtype())) return h.result(r);
      const Term size = b.apply(Op::abs), sign = a.apply(Op::sign);
      Term m = r * sign;  // of a's size
      m = sixfold::where(m.apply(Op::lt, m.number(0)), m + size, m);
      return h.result(sixfold::where(m.apply(Op::ge, size), m - size, m) * sign);
    }
    case Op::atan2: {
      if (h.target.quantizes) {
        // No part has a wide range: atan of the smaller by the larger, then the octant.
        const Term y = a.apply(Op::abs), x = b.apply(Op::abs);
        const Term larger = y.apply(Op::maximum, x), zero = x.number(0);
        // Both may be less than a step of their grid: then the device divides zero by zero.
        const Term quotient = y.apply(Op::minimum, x) / larger.apply(Op::maximum, x.number(1e-6));
        const Term part = sixfold::where(larger.apply(Op::gt, zero), quotient, zero).apply(Op::atan);
        const Term upper = sixfold::where(y.apply(Op::gt, x), M_PI_2 - part, part);
        const Term half = sixfold::where(b.apply(Op::lt, b.number(0)), M_PI - upper, upper);
        return h.result(sixfold::where(a.apply(Op::lt, a.number(0)), -half, half));
      }
      // Bounded, since the device's arc tangent of an infinity is wrong.
      const Term slope = clamped(a / b, -30000.0, 30000.0).apply(Op::atan);
      const Term turned =
          slope + sixfold::where(a.apply(Op::lt, a.number(0)), a.number(-M_PI), a.number(M_PI));
      const Term upright = a.apply(Op::sign) * M_PI_2;
      return h.result(sixfold::where(b.apply(Op::gt, b.number(0)), slope,
                                     sixfold::where(b.apply(Op::lt, b.number(0)), turned, upright)));
    }
    default:
      return h.unsupported("it has no formula");
  }
}

// Whole exponents are products: the device's power of a negative base is not a number.
Match pow(Htp& h) {
  const Term x = h.term(0);
  if (const Tensor* e = single(h, 1)) {
    const double n = element_real(*e, 0);
    const Dims& dims = h.out_type().dims;
    if (!(x.dims() == dims)) return full_rank(h);
    if (is_float(x.dtype())) {
      if (n == 0.5) return h.result(x.apply(Op::sqrt));
      if (n == -0.5) return h.result(x.apply(Op::rsqrt));
      if (n == -1) return h.result(x.apply(Op::reciprocal));
    }
    const double size = std::abs(n);
    if (n == std::floor(n) && size >= 2 && size <= 64 && (n > 0 || is_float(x.dtype()))) {
      // Squares of squares.
      Term square = x;
      std::optional<Term> product;
      for (auto bits = static_cast<uint32_t>(size); bits != 0; bits >>= 1) {
        if (bits & 1) product = product ? *product * square : square;
        if (bits > 1) square = square * square;
      }
      return h.result(n > 0 ? *product : product->apply(Op::reciprocal));
    }
  }
  // On a grid the device takes the first of a base that is smaller than the exponent, and zeros.  [htp.pow.1]
  if (h.target.quantizes && is_float(x.dtype()) && !(x.dims() == h.out_type().dims)) {
    if (const Tensor* base = single(h, 0); base && element_real(*base, 0) > 0)
      return h.result((h.term(1) * std::log(element_real(*base, 0))).apply(Op::exp));
    return h.result(Term(h, h.expand(h.in(0), h.out_type().dims)).apply(Op::pow, h.term(1)));
  }
  return full_rank(h);
}

Match bitwise(Htp& h) {
  if (h.dtype(h.in()) != DType::boolean)
    return h.unsupported("the device has bitwise operations of bools only");
  return full_rank(h);
}

Match logical(Htp& h) {
  const Term a = h.term(0), b = h.term(1);
  if (a.dtype() == DType::boolean && b.dtype() == DType::boolean) return full_rank(h);
  return h.result(nonzero(a).apply(h.op(), nonzero(b)));
}

Match where(Htp& h) {
  const Term c = h.term(0), a = h.term(1), b = h.term(2);
  if (a.dtype() == DType::boolean) {
    const Term yes = c.apply(Op::logical_and, a), no = negated(c).apply(Op::logical_and, b);
    return h.result(yes.apply(Op::logical_or, no));
  }
  return full_rank(h);
}

// Below three axes the channels are last already; the device has no slope for a number.
Match prelu(Htp& h) {
  const Term x = h.term(0);
  if (x.rank() >= 2) return no_match("the device has it");
  const Term weight = h.term(1).reshape(Dims(x.dims().size(), Dim(1)));
  return h.result(sixfold::where(x.apply(Op::gt, x.number(0)), x, weight * x));
}

}  // namespace sixfold::htp
