// Gradients of softmax and of the normalizations.
//
// With y = (x - mean) rstd over some axes and g the gradient of y, that of x is rstd (g - mean(g) - y mean(g
// y)).
#include "sixfold/ops/backward/gradient.h"
#include "sixfold/ops/rule_table.h"

namespace sixfold::aten {
namespace {

Expr through_norm(const Expr& g, const Expr& y, const Expr& rstd, const Shape& axes) {
  return rstd * (g - mean(g, axes, true) - y * mean(g * y, axes, true));
}

Expr argument(Call& call, std::string_view name, DType dtype) {
  return Expr(call, call.tensor(name)).to(dtype);
}
ValueId wanted(Call& call, size_t i, const Expr& gradient, DType dtype) {
  return is_wanted(call, i) ? gradient.to(dtype) : kNoValue;
}

Status softmax_backward(Call& call) {
  const Gradient at(call, "output");
  const Shape axes{call.axis("dim", at.x)};
  const Expr weighted = at.g * at.x;
  const Expr total = at.x.rank() == 0 ? weighted : sum(weighted, axes, true);
  return call.result((weighted - at.x * total).to(call.dtype("input_dtype").value_or(at.result)));
}
Status log_softmax_backward(Call& call) {
  const Gradient at(call, "output");
  const Shape axes{call.axis("dim", at.x)};
  const Expr total = at.x.rank() == 0 ? at.g : sum(at.g, axes, true);
  return call.result((at.g - exp(at.x) * total).to(call.dtype("input_dtype").value_or(at.result)));
}

Status layer_norm_backward(Call& call) {
  const Gradient at(call, "input", "grad_out");
  const auto inner = static_cast<int64_t>(call.dims("normalized_shape").size());
  if (!call.ok() || inner > at.x.rank())
    return invalid_model("layer norm over ", inner, " axes of ", at.x.dims());
  const int64_t outer = at.x.rank() - inner;
  const Shape over = axes_between(outer, at.x.rank()), batch = axes_between(0, outer);
  const Expr rstd = argument(call, "rstd", at.g.dtype());
  const Expr y = (at.x - argument(call, "mean", at.g.dtype())) * rstd;
  const bool weighted = !call.is_none("weight");
  const Expr g = weighted ? at.g * argument(call, "weight", at.g.dtype()) : at.g;
  const auto over_batch = [&](const Expr& e) { return outer == 0 ? e : sum(e, batch); };
  return give_wanted(
      call, {wanted(call, 0, through_norm(g, y, rstd, over), at.result),
             wanted(call, 1, over_batch(at.g * y), at.result), wanted(call, 2, over_batch(at.g), at.result)});
}

Status rms_norm_backward(Call& call) {
  const Gradient at(call, "input", "grad_out");
  const auto inner = static_cast<int64_t>(call.dims("normalized_shape").size());
  if (!call.ok() || inner > at.x.rank())
    return invalid_model("rms norm over ", inner, " axes of ", at.x.dims());
  const int64_t outer = at.x.rank() - inner;
  const Expr rstd = argument(call, "rstd", at.g.dtype()), y = at.x * rstd;
  const Expr g = call.is_none("weight") ? at.g : at.g * argument(call, "weight", at.g.dtype());
  const Expr dx = rstd * (g - y * mean(g * y, axes_between(outer, at.x.rank()), true));
  const Expr dw = outer == 0 ? at.g * y : sum(at.g * y, axes_between(0, outer));
  return give_wanted(call, {wanted(call, 0, dx, at.result), wanted(call, 1, dw, at.result)});
}

// One value for each channel (axis 1) beside x.
Expr per_channel(const Expr& values, const Expr& x) {
  Dims shape(static_cast<size_t>(x.rank()), Dim(1));
  shape[1] = extent_of(x, 1);
  return values.reshape(shape);
}

Status group_norm_backward(Call& call) {
  const Gradient at(call, "input", "grad_out");
  const Dim n = call.dim("N"), channels = call.dim("C"), area = call.dim("HxW"), groups = call.dim("group");
  if (!call.ok() || groups == Dim(0)) return invalid_model("group norm of ", groups, " groups");
  const Dim width = floordiv(channels, groups);
  const Dims grouped{n, groups, width, area}, by_group{n, groups, Dim(1), Dim(1)};
  const Expr g = at.g.reshape(grouped), x = at.x.reshape(grouped);
  const Expr rstd = argument(call, "rstd", g.dtype()).reshape(by_group);
  const Expr y = (x - argument(call, "mean", g.dtype()).reshape(by_group)) * rstd;
  const Expr scaled = call.is_none("weight")
                          ? g
                          : g * argument(call, "weight", g.dtype()).reshape({Dim(1), groups, width, Dim(1)});
  const Expr dx = through_norm(scaled, y, rstd, {2, 3}).reshape(at.x.dims());
  return give_wanted(call, {wanted(call, 0, dx, at.result),
                            wanted(call, 1, sum(g * y, {0, 3}).reshape({channels}), at.result),
                            wanted(call, 2, sum(g, {0, 3}).reshape({channels}), at.result)});
}

// In training the statistics come from x itself; in evaluation they are constants.
Status batch_norm_backward(Call& call) {
  const Gradient at(call, "input", "grad_out");
  if (!call.ok() || at.x.rank() < 2) return invalid_model("batch norm of ", at.x.dims());
  const DType dtype = at.g.dtype();
  const bool train = call.flag("train");
  const Expr mean_of = per_channel(argument(call, train ? "save_mean" : "running_mean", dtype), at.x);
  const Expr rstd = per_channel(train ? argument(call, "save_invstd", dtype)
                                      : rsqrt(argument(call, "running_var", dtype) + call.real("eps")),
                                at.x);
  Shape over{0};
  for (int64_t i = 2; i < at.x.rank(); ++i) over.push_back(i);
  const Expr y = (at.x - mean_of) * rstd;
  Expr dx = train ? through_norm(at.g, y, rstd, over) : at.g * rstd;
  if (!call.is_none("weight")) dx = dx * per_channel(argument(call, "weight", dtype), at.x);
  return give_wanted(call, {wanted(call, 0, dx, at.result), wanted(call, 1, sum(at.g * y, over), at.result),
                            wanted(call, 2, sum(at.g, over), at.result)});
}

constexpr AtenRule kRules[] = {
    {"aten._softmax_backward_data.default", softmax_backward},
    {"aten._log_softmax_backward_data.default", log_softmax_backward},
    {"aten.native_layer_norm_backward.default", layer_norm_backward},
    {"aten._fused_rms_norm_backward.default", rms_norm_backward},
    {"aten.native_group_norm_backward.default", group_norm_backward},
    {"aten.native_batch_norm_backward.default", batch_norm_backward},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> backward_norm_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
