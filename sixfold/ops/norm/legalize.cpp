// Normalizations as kernels. Half tensors are normalized in float and rounded once.
#include "sixfold/ops/legalize.h"

namespace sixfold::legalize {
namespace {

Dims trailing(const Dims& dims, int64_t axes) { return Dims(dims.end() - axes, dims.end()); }

}  // namespace

// log_softmax of halves along the last axis: torch rounds the sum and its logarithm to their type there.
Match log_softmax_half(Legal& legal) {
  const DType half = legal.dtype(legal.in());
  const Term x = legal.term().to(DType::f32);
  const Shape last{x.rank() - 1};
  const Term max = x.reduce(Op::amax, last);
  const Term sum = (x - max).apply(Op::exp).reduce(Op::sum, last).to(half);
  const Term log_sum = sum.to(DType::f32).apply(Op::log).to(half).to(DType::f32);
  return legal.result((x - log_sum - max).to(half));
}

Match softmax(Legal& legal) {
  const ValueId x = legal.in();
  if (legal.op() == Op::log_softmax && is_half(legal.dtype(x)) &&
      legal.attrs().integer("dim") + 1 == legal.rank(x))
    return log_softmax_half(legal);
  if (is_half(legal.dtype(x))) return legal.computed_in(DType::f32);
  const Attr dim = Dim(legal.attrs().integer("dim"));
  // The optimized kernel of log_softmax has no double.
  if (legal.op() == Op::log_softmax && legal.dtype(x) == DType::f64)
    return legal.result(legal.term().apply(Op::softmax, legal.attrs()).apply(Op::log));
  if (legal.rank(x) == 0)
    return legal.result(
        legal.reshape(legal.add(legal.op(), {legal.reshape(x, {Dim(1)})}, legal.attrs()), {}));
  return legal.call(legal.op() == Op::softmax ? "aten._softmax.default" : "aten._log_softmax.default",
                    {{"self", x}, {"dim", dim}, {"half_to_float", Attr(false)}});
}

Match layer_norm(Legal& legal) {
  const ValueId x = legal.in();
  if (is_half(legal.dtype(x))) return legal.computed_in(DType::f32);
  const int64_t axes = legal.attrs().integer("axes");
  Type statistic = legal.type(x);
  for (auto it = statistic.dims.end() - axes; it != statistic.dims.end(); ++it) *it = Dim(1);
  return legal.call("aten.native_layer_norm.default",
                    {{"input", x},
                     {"normalized_shape", trailing(legal.dims(x), axes)},
                     {"weight", legal.in(1)},
                     {"bias", legal.in(2)},
                     {"eps", legal.attrs().real("eps")}},
                    {statistic, statistic});
}

// x / sqrt(mean(x^2) + eps) * weight
Match rms_norm(Legal& legal) {
  if (is_half(legal.dtype(legal.in()))) return legal.computed_in(DType::f32);
  const Term x = legal.term();
  Shape dims;
  for (int64_t i = x.rank() - legal.attrs().integer("axes"); i < x.rank(); ++i) dims.push_back(i);
  Term y = x * ((x * x).reduce(Op::mean, dims) + legal.attrs().real("eps")).apply(Op::rsqrt);
  if (legal.in(1).valid()) y = y * legal.term(1);
  return legal.result(y);
}

Match group_norm(Legal& legal) {
  const ValueId x = legal.in();
  if (is_half(legal.dtype(x))) return legal.computed_in(DType::f32);
  const Dims& dims = legal.dims(x);
  const int64_t groups = legal.attrs().integer("groups");
  const Type statistic{legal.dtype(x), {dims[0], Dim(groups)}};
  return legal.call("aten.native_group_norm.default",
                    {{"input", x},
                     {"weight", legal.in(1)},
                     {"bias", legal.in(2)},
                     {"N", dims[0]},
                     {"C", dims[1]},
                     {"HxW", numel(Dims(dims.begin() + 2, dims.end()))},
                     {"group", Dim(groups)},
                     {"eps", legal.attrs().real("eps")}},
                    {statistic, statistic});
}

Match batch_norm(Legal& legal) {
  const ValueId x = legal.in();
  if (is_half(legal.dtype(x))) return legal.computed_in(DType::f32);
  const Type unused{legal.dtype(x), {Dim(0)}};
  return legal.call("aten._native_batch_norm_legit_no_training.default",
                    {{"input", x},
                     {"weight", legal.in(1)},
                     {"bias", legal.in(2)},
                     {"running_mean", legal.in(3)},
                     {"running_var", legal.in(4)},
                     {"momentum", Attr(0.1)},
                     {"eps", legal.attrs().real("eps")}},
                    {unused, unused});
}

}  // namespace sixfold::legalize
