// Elementwise ops of two or three tensors on the NPU.
#include "sixfold/lower/merge_axes.h"

namespace sixfold::lower {
namespace {

const char* type_of(Op op) {
  switch (op) {
    case Op::add:
      return "ElementWiseAdd";
    case Op::sub:
      return "ElementWiseSubtract";
    case Op::mul:
      return "ElementWiseMultiply";
    case Op::div:
      return "ElementWiseDivide";
    case Op::pow:
      return "ElementWisePower";
    case Op::minimum:
      return "ElementWiseMinimum";
    case Op::maximum:
      return "ElementWiseMaximum";
    case Op::bitwise_and:
    case Op::logical_and:
      return "ElementWiseAnd";
    case Op::bitwise_or:
    case Op::logical_or:
      return "ElementWiseOr";
    case Op::bitwise_xor:
    case Op::logical_xor:
      return "ElementWiseXor";
    case Op::eq:
      return "ElementWiseEqual";
    case Op::ne:
      return "ElementWiseNotEqual";
    case Op::lt:
      return "ElementWiseLess";
    case Op::le:
      return "ElementWiseLessEqual";
    case Op::gt:
      return "ElementWiseGreater";
    case Op::ge:
      return "ElementWiseGreaterEqual";
    default:
      return nullptr;
  }
}

bool takes_four_axes(Op op) {
  switch (op) {
    case Op::minimum:
    case Op::maximum:
    case Op::bitwise_and:
    case Op::bitwise_or:
    case Op::bitwise_xor:
    case Op::logical_and:
    case Op::logical_or:
    case Op::logical_xor:
      return true;
    default:
      return false;
  }
}

}  // namespace

void binary(Lowering& l) {
  const char* type = type_of(l.op());
  if (!type) return none(l);
  if (l.op() == Op::div && l.attrs().text("rounding") == "floor")
    return l.refuse("a division that rounds down is written as a division and a floor");
  if (takes_four_axes(l.op()) && l.out_type().rank() > 4) return add_merged(l, type, {l.in(0), l.in(1)});
  l.add_simple(type);
}

void where(Lowering& l) { l.add_simple("ElementWiseSelect"); }

// One slope for each channel, which is the last axis in this form, or one for all.
void prelu(Lowering& l) { l.add("Prelu", {l.in(0), l.in_form(1, Form::plain)}, {l.out()}); }

}  // namespace sixfold::lower
