// Elementwise ops of two or three tensors on the NPU.
#include <algorithm>

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

// Of 16 bits or floats and read by a norm: the library has a way of its own for the two together, which is
// wrong where one side is the same for all of a batch. [htp.norm.1]
bool goes_into_a_norm(const Lowering& l) {
  if (!is_float(l.out_type().dtype)) return false;
  if (l.quantized() && fixed_bytes(*l.out_encoding()) != 2) return false;
  const std::vector<NodeId>& users = l.graph().value(l.node().output()).users;
  return std::any_of(users.begin(), users.end(), [&](NodeId id) {
    const Op op = l.graph().node(id).op;
    return op == Op::layer_norm || op == Op::rms_norm;
  });
}

// Products of integers that repeat both sides are wrong when reshapes made those. [htp.mul.1]
bool repeats_both(const Lowering& l) {
  const Dims& all = l.out_type().dims;
  return l.op() == Op::mul && is_integer(l.out_type().dtype) && l.type(0).dims != all &&
         l.type(1).dims != all;
}

// The operand, as often as the result has it.
TensorRef repeated(Lowering& l, size_t i) {
  const TensorRef x = l.in(i), y = l.out();
  if (!l.status().ok()) return x;
  const std::vector<uint32_t> out = l.spec(y).dims, own = l.spec(x).dims;
  std::vector<uint32_t> dims = own, multiples;
  dims.insert(dims.begin(), out.size() - dims.size(), 1);
  for (size_t a = 0; a < out.size(); ++a) multiples.push_back(out[a] / dims[a]);
  if (dims == out) return x;
  const TensorRef all = l.temp(out, x);
  l.add("Tile", {dims == own ? x : l.reshape(x, dims)}, {all}, {words("multiples", std::move(multiples))});
  return all;
}
// The same, but for what is repeated along the last axis, or is that axis alone.
TensorRef repeated_rows(Lowering& l, size_t i) {
  const Dims &own = l.type(i).dims, &all = l.out_type().dims;
  const bool row = own.empty() || numel(own) == numel({own.back()});
  return row || own.back() != all.back() ? l.in(i) : repeated(l, i);
}

// Rows of 16 bits that a product made: Qualcomm's library cuts them in one way for the condition and in
// another for the numbers, and does not run. As images with a width of one they stay whole. [htp.where.1]
bool selects_rows(const Lowering& l, const std::vector<uint32_t>& dims) {
  if (!l.quantized() || fixed_bytes(*l.out_encoding()) != 2) return false;
  if (dims.size() < 2 || dims.size() > 4) return false;
  return std::all_of(dims.begin(), dims.end() - 2, [](uint32_t n) { return n == 1; });
}

}  // namespace

void binary(Lowering& l) {
  const char* type = type_of(l.op());
  if (!type) return none(l);
  if (l.op() == Op::div && l.attrs().text("rounding") == "floor")
    return l.refuse("a division that rounds down is written as a division and a floor");
  if (takes_four_axes(l.op()) && l.out_type().rank() > 4) return add_merged(l, type, {l.in(0), l.in(1)});
  if (goes_into_a_norm(l)) return l.add(type, {repeated_rows(l, 0), repeated_rows(l, 1)}, {l.out()});
  if (repeats_both(l)) return l.add(type, {repeated(l, 0), l.in(1)}, {l.out()});
  l.add_simple(type);
}

void where(Lowering& l) {
  const TensorRef y = l.out();
  if (!l.status().ok()) return;
  if (!selects_rows(l, l.spec(y).dims)) return l.add_simple("ElementWiseSelect");
  const auto image = [](std::vector<uint32_t> dims) {
    if (dims.size() == 4) dims.erase(dims.begin());
    if (dims.size() >= 2) dims.insert(dims.end() - 1, 1);
    return dims;
  };
  std::vector<TensorRef> operands;
  for (size_t i = 0; i < l.inputs(); ++i) {
    const TensorRef x = l.in(i);
    if (!l.status().ok()) return;
    operands.push_back(l.reshape(x, image(l.spec(x).dims)));
  }
  const TensorRef part = l.temp(image(l.spec(y).dims), y);
  l.add("ElementWiseSelect", std::move(operands), {part});
  l.add("Reshape", {part}, {y});
}

// One slope for each channel, which is the last axis in this form, or one for all.
void prelu(Lowering& l) { l.add("Prelu", {l.in(0), l.in_form(1, Form::plain)}, {l.out()}); }

}  // namespace sixfold::lower
