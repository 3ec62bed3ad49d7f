// Constants that 16-bit floats do not reach.
#include <cmath>

#include "sixfold/rewrite/recompose.h"

namespace sixfold {
namespace {

constexpr double kMost = 65504;     // the largest half
constexpr double kLeast = 0x1p-24;  // the smallest above zero

bool reads_numbers(Op op) {
  switch (op) {
    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::div:
    case Op::minimum:
    case Op::maximum:
    case Op::where:
    case Op::expand:
    case Op::concat:
      return true;
    default:
      return false;
  }
}

}  // namespace

// f(x, -3.4e38)  ->  f(x, -65504): the device would read an infinity, and zero times that is no number
// x + 1e-10, or clamp(x, min=1e-10)  ->  2^-24 instead: it would read a zero, and what keeps a logarithm or a
// quotient from zero is gone
//
// What the model itself says is infinite stays so.
Match finite_halves(const Graph& graph, const Node& node) {
  if (node.op == Op::clamp && is_float(graph.dtype(node.input(0))) && !graph.value(node.input(0)).encoding) {
    const double least = node.attrs.is_given("min") ? node.attrs.real("min") : 0;
    if (!(least > 0 && least <= kLeast / 2)) return no_match("its least is a half");
    Attrs attrs = node.attrs;
    attrs.set("min", kLeast);
    Patch patch(graph, node);
    patch.replace(node.output(), patch.add(Op::clamp, {node.input(0)}, std::move(attrs)));
    return patch;
  }
  if (!reads_numbers(node.op)) return no_match("reads no numbers");
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId v = node.input(i);
    const Tensor* t = graph.constant(v);
    if (!t || !is_float(t->dtype) || t->dtype == DType::f16 || graph.value(v).encoding) continue;
    const Tensor flat = to_contiguous(*t);
    const bool added = node.op == Op::add || node.op == Op::sub || node.op == Op::maximum;
    const auto beyond = [&](double x) {
      return std::isfinite(x) && (std::abs(x) > kMost || (added && x != 0 && std::abs(x) <= kLeast / 2));
    };
    bool found = false;
    for (int64_t k = 0; k < flat.count() && !found; ++k) found = beyond(element_real(flat, k));
    if (!found) continue;
    std::byte* bytes = nullptr;
    Tensor near = Tensor::allocate(t->dtype, t->shape, &bytes);
    with_type(t->dtype, [&](auto tag) {
      using T = decltype(tag);
      for (int64_t k = 0; k < flat.count(); ++k) {
        const double x = element_real(flat, k);
        reinterpret_cast<T*>(bytes)[k] =
            static_cast<T>(beyond(x) ? std::copysign(std::abs(x) > 1 ? kMost : kLeast, x) : x);
      }
    });
    Patch patch(graph, node);
    std::vector<ValueId> inputs = node.inputs;
    inputs[i] = patch.constant(std::move(near));
    patch.replace(node.output(), patch.add(node.op, std::move(inputs), node.attrs));
    return patch;
  }
  return no_match("all constants are halves");
}

}  // namespace sixfold
