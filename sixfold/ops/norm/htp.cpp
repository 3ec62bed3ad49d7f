// Softmax and normalizations as ops that the NPU has.
#include "sixfold/rewrite/htp.h"

namespace sixfold::htp {
namespace {

// exp of it is below any half beside exp(0), and still right on the device.
constexpr double kLeast = -80;

bool is_bounded(const Htp& h) {
  const Node* clamp = h.graph.producer(h.in());
  return clamp && clamp->op == Op::clamp && clamp->attrs.is_given("min") &&
         clamp->attrs.real("min") >= kLeast;
}

}  // namespace

// Along another axis than the last: that axis is moved there and back. Axis 1 of an image is last in the
// order that images have on the device.
Match softmax(Htp& h) {
  const ValueId x = h.in();
  const int64_t rank = h.rank(x), dim = h.attrs().integer("dim");
  if (rank == 0) return h.result(h.patch.scalar(h.op() == Op::softmax ? 1.0 : 0.0, h.dtype(x)));
  // Along an axis of one the device's own is not 0.  [htp.log_softmax.2]
  if (h.op() == Op::log_softmax && h.term().dims()[static_cast<size_t>(dim)] == Dim(1))
    return h.result(h.term() - h.term());
  if (dim == rank - 1 || (dim == 1 && rank >= 3 && rank <= 5)) {
    if (h.op() == Op::softmax || h.graph.value(x).encoding || is_bounded(h))
      return no_match("the device has it");
    // The device's own is wrong where numbers differ by more than a hundred  [htp.log_softmax.1]: the log of
    // the sum is taken from it, of bounded numbers, where the largest is.
    const Term y = h.term(), below = y - y.reduce(Op::amax, {dim});
    const Term bounded = clamped(below, kLeast, Attr()).apply(Op::log_softmax, h.attrs());
    return h.result(below + bounded.reduce(Op::amax, {dim}));
  }
  Shape order;
  for (int64_t i = 0; i < rank; ++i) order.push_back(i == dim ? rank - 1 : i == rank - 1 ? dim : i);
  Attrs attrs = h.attrs();
  attrs.set("dim", Dim(rank - 1));
  return h.result(h.permute(h.add(h.op(), {h.permute(x, order)}, std::move(attrs)), order));
}

Match layer_norm(Htp&) { return no_match("the device has it"); }

Match group_norm(Htp&) { return no_match("the device has it"); }

// With parameters that are computed: (x - mean) / sqrt(var + eps) weight + bias.
Match batch_norm(Htp& h) {
  const Term x = h.term();
  bool constant = true;
  for (size_t i = 1; i < 5; ++i) constant = constant && (!h.in(i).valid() || h.constant_data(h.in(i)));
  if (constant) return no_match("the device has it");
  Dims shape(x.dims().size(), Dim(1));
  shape[1] = x.dims()[1];
  const auto parameter = [&](size_t i) { return h.term(i).reshape(shape); };
  Term y = x;
  if (h.in(3).valid()) y = y - parameter(3);
  if (h.in(4).valid()) y = y * (parameter(4) + h.attrs().real("eps")).apply(Op::rsqrt);
  if (h.in(1).valid()) y = y * parameter(1);
  if (h.in(2).valid()) y = y + parameter(2);
  return h.result(y);
}

}  // namespace sixfold::htp
