// Elementwise ops of two or three tensors as kernels: they broadcast as torch does. Where a kernel's numbers
// are not torch's, a formula mends them.
#include "sixfold/ops/legalize.h"

namespace sixfold::legalize {
namespace {

// The sign of the divisor; the kernel of integers takes the sign of the dividend.
Match integer_remainder(Legal& legal) {
  const Term b = legal.term(1), r = legal.term(0).apply(Op::fmod, b), zero = b.number(0);
  const Term wrong = r.apply(Op::lt, zero).apply(Op::logical_xor, b.apply(Op::lt, zero));
  return legal.result(sixfold::where(wrong.apply(Op::logical_and, r.apply(Op::ne, zero)), r + b, r));
}

// By zero the kernel gives an infinity where torch gives what a plain division gives.
Match real_floor_division(Legal& legal) {
  const Term a = legal.term(0), b = legal.term(1);
  const Term quotient(
      legal, legal.add_call("aten.div.Tensor_mode",
                            {{"self", a}, {"other", b}, {"rounding_mode", Attr("floor")}}, legal.out_type()));
  return legal.result(sixfold::where(b.apply(Op::eq, b.number(0)), a / b, quotient));
}

bool has_zero(const Tensor& divisor) {
  const Tensor plain = to_contiguous(divisor);
  for (int64_t i = 0; i < plain.count(); ++i)
    if (element_real(plain, i) == 0) return true;
  return false;
}

}  // namespace

Match binary(Legal& legal) {
  const char* overload = ".Tensor";
  std::string name(to_text(legal.op()));
  std::vector<LegalArg> args = {{"self", legal.in(0)}, {"other", legal.in(1)}};
  switch (legal.op()) {
    case Op::div: {
      const std::string& rounding = legal.attrs().text("rounding");
      const Tensor* divisor = legal.constant_data(legal.in(1));
      if (rounding == "floor" && is_float(legal.dtype(legal.in())) && (!divisor || has_zero(*divisor)))
        return real_floor_division(legal);
      if (rounding != "none") {
        overload = ".Tensor_mode";
        args.emplace_back("rounding_mode", Attr(rounding));
      }
      break;
    }
    case Op::remainder:
      if (is_integer(legal.dtype(legal.in())) && is_signed(legal.dtype(legal.in())))
        return integer_remainder(legal);
      break;
    case Op::pow:
      overload = ".Tensor_Tensor";
      args[1].name = "exponent";
      break;
    case Op::shift_left:
      name = "bitwise_left_shift";
      break;
    case Op::shift_right:
      name = "bitwise_right_shift";
      break;
    case Op::minimum:
    case Op::maximum:
    case Op::atan2:
    case Op::logical_and:
    case Op::logical_or:
    case Op::logical_xor:
      overload = ".default";
      break;
    default:
      break;
  }
  return legal.call(cat("aten.", name, overload), std::move(args));
}

Match where(Legal& legal) {
  return legal.call("aten.where.self",
                    {{"condition", legal.in(0)}, {"self", legal.in(1)}, {"other", legal.in(2)}});
}

// where(x > 0, x, weight * x), the weight along axis 1
Match prelu(Legal& legal) {
  if (is_half(legal.dtype(legal.in()))) return legal.computed_in(DType::f32);
  const Term x = legal.term(0);
  Dims shape(legal.dims(x).size(), Dim(1));
  const Dim weights = legal.dims(legal.in(1)).empty() ? Dim(1) : legal.dims(legal.in(1))[0];
  if (shape.size() > 1) shape[1] = weights;
  const Term weight = legal.term(1).reshape(shape);
  return legal.result(sixfold::where(x.apply(Op::gt, x.number(0)), x, weight * x));
}

}  // namespace sixfold::legalize
