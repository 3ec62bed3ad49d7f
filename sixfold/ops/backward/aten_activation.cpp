// Gradients of activations: g times the derivative, computed in float and rounded once.
#include <cmath>
#include <numbers>

#include "sixfold/ops/backward/gradient.h"
#include "sixfold/ops/rule_table.h"

namespace sixfold::aten {
namespace {

Expr sigmoid(const Expr& x) { return x.apply(Op::sigmoid); }
Expr tanh(const Expr& x) { return x.apply(Op::tanh); }
Expr greater(const Expr& x, double value) { return x.apply(Op::gt, x.number(value)); }
Expr at_most(const Expr& x, double value) { return x.less_equal(value); }
Expr and_(const Expr& a, const Expr& b) { return a.apply(Op::logical_and, b); }

Status sigmoid_backward(Call& call) {
  const Gradient at(call, "output");
  return at.give(at.g * ((1.0 - at.x) * at.x));
}
Status tanh_backward(Call& call) {
  const Gradient at(call, "output");
  return at.give(at.g * (1.0 - at.x * at.x));
}
Status threshold_backward(Call& call) {
  const Gradient at(call, "self");
  return at.give(where(at_most(at.x, call.real("threshold")), 0.0, at.g));
}

Status elu_backward(Call& call) {
  const Gradient at(call, "self_or_result");
  const double scale = call.real("scale"), inner = call.real("input_scale"),
               outer = call.real("alpha") * scale;
  const Expr below =
      call.flag("is_result") ? at.g * inner * (at.x + outer) : at.g * (inner * outer) * exp(at.x * inner);
  return at.give(where(at_most(at.x, 0), below, at.g * scale));
}

Status gelu_backward(Call& call) {
  const Gradient at(call, "self", call.attr("grad_output") ? "grad_output" : "grad");
  const Expr& x = at.x;
  if (call.attr("approximate") && call.text("approximate") == "tanh") {
    const double a = std::numbers::sqrt2 * std::numbers::inv_sqrtpi, b = 0.044715;
    const Expr t = tanh((x + x * x * x * b) * a);
    const Expr slope = (1.0 - t * t) * ((x * x * (3 * b) + 1.0) * a);
    return at.give(at.g * ((t + 1.0) * 0.5 + x * slope * 0.5));
  }
  const Expr cdf = ((x * (std::numbers::sqrt2 / 2)).apply(Op::erf) + 1.0) * 0.5;
  const Expr pdf = exp(x * x * -0.5) * (std::numbers::inv_sqrtpi * std::numbers::sqrt2 / 2);
  return at.give(at.g * (cdf + x * pdf));
}

Status leaky_backward(Call& call, double slope) {
  const Gradient at(call, "self");
  return at.give(where(greater(at.x, 0), at.g, at.g * slope));
}
Status leaky_relu_backward(Call& call) { return leaky_backward(call, call.real("negative_slope")); }
// In training the noise is the slope of each element.
Status rrelu_backward(Call& call) {
  const double lower = call.real("lower"), upper = call.real("upper");
  if (!call.flag("training") || upper - lower <= 1e-6) return leaky_backward(call, (lower + upper) / 2);
  const Gradient at(call, "noise");
  return at.give(at.g * at.x);
}

Status hardtanh_backward(Call& call) {
  const Gradient at(call, "self");
  const Expr outside = at_most(at.x, call.real("min_val"))
                           .apply(Op::logical_or, at.x.apply(Op::ge, at.x.number(call.real("max_val"))));
  return at.give(where(outside, 0.0, at.g));
}

Status softplus_backward(Call& call) {
  const Gradient at(call, "self");
  const Expr scaled = at.x * call.real("beta");
  return at.give(where(greater(scaled, call.real("threshold")), at.g, at.g * sigmoid(scaled)));
}
Status silu_backward(Call& call) {
  const Gradient at(call, "self");
  const Expr s = sigmoid(at.x);
  return at.give(at.g * s * (at.x * (1.0 - s) + 1.0));
}
Status mish_backward(Call& call) {
  const Gradient at(call, "self");
  const Expr t = tanh(at.x.apply(Op::softplus, {{"beta", 1.0}, {"threshold", 40.0}}));
  return at.give(at.g * (t + at.x * sigmoid(at.x) * (1.0 - t * t)));
}
Status hardswish_backward(Call& call) {
  const Gradient at(call, "self");
  const Expr middle = where(at.x.less(at.x.number(3)), at.g * (at.x / 3.0 + 0.5), at.g);
  return at.give(where(at_most(at.x, -3), 0.0, middle));
}
Status hardsigmoid_backward(Call& call) {
  const Gradient at(call, "self");
  return at.give(where(and_(greater(at.x, -3), at.x.less(at.x.number(3))), at.g / 6.0, 0.0));
}
// The derivative of log(sigmoid(x)) is sigmoid(-x).
Status log_sigmoid_backward(Call& call) {
  const Gradient at(call, "self");
  return at.give(at.g * sigmoid(-at.x));
}

Status shrink_backward(Call& call, std::string_view grad) {
  const Gradient at(call, "self", grad);
  const double lambda = call.real("lambd");
  const Expr inside = and_(at.x.apply(Op::ge, at.x.number(-lambda)), at_most(at.x, lambda));
  return at.give(where(inside, 0.0, at.g));
}
Status softshrink_backward(Call& call) { return shrink_backward(call, "grad_output"); }
Status hardshrink_backward(Call& call) { return shrink_backward(call, "grad_out"); }

Status logit_backward(Call& call) {
  const Gradient at(call, "self");
  const bool bounded = !call.is_none("eps");
  const double low = bounded ? call.real("eps") : 0.0;
  const Expr outside = at.x.less(at.x.number(low)).apply(Op::logical_or, greater(at.x, 1 - low));
  return at.give(where(outside, bounded ? 0.0 : std::nan(""), at.g / (at.x * (1.0 - at.x))));
}

// Of a sigmoid(b): g sigmoid(b) for a, g a sigmoid(b) (1 - sigmoid(b)) for b
Status glu_backward(Call& call) {
  const Gradient at(call, "self");
  const int64_t dim = call.axis("dim", at.x);
  if (!call.ok() || at.x.rank() == 0) return call.unsupported("glu of a tensor without axes");
  const Dim extent = at.x.dims()[static_cast<size_t>(dim)], half = floordiv(extent, Dim(2));
  const Expr a(call, call.slice(at.x, dim, Dim(0), half)), b(call, call.slice(at.x, dim, half, extent));
  const Expr s = sigmoid(b), for_a = at.g * s, for_b = for_a * a * (1.0 - s);
  return at.give(Expr(call, call.op(Op::concat, {for_a, for_b}, {{"dim", Dim(dim)}})));
}

Status prelu_backward(Call& call) {
  const Gradient at(call, "self");
  const Expr weight = Expr(call, call.tensor("weight")).to(at.g.dtype()), positive = greater(at.x, 0);
  return call.results(
      {where(positive, at.g, weight * at.g).to(at.result), where(positive, 0.0, at.x * at.g).to(at.result)});
}

// Where the forward pass kept an element, g times a factor.
Status masked(Call& call, std::string_view grad, double factor) {
  const Expr g(call, call.tensor(grad));
  const Expr kept = Expr(call, call.tensor("mask")).to(g.dtype());
  return call.result(g * kept * factor);
}
Status dropout_backward(Call& call) { return masked(call, "grad_output", call.real("scale")); }
Status fake_quantize_backward(Call& call) { return masked(call, "grad", 1); }

constexpr AtenRule kRules[] = {
    {"aten.sigmoid_backward.default", sigmoid_backward},
    {"aten.tanh_backward.default", tanh_backward},
    {"aten.threshold_backward.default", threshold_backward},
    {"aten.elu_backward.default", elu_backward},
    {"aten.gelu_backward.default", gelu_backward},
    {"aten.infinitely_differentiable_gelu_backward.default", gelu_backward},
    {"aten.leaky_relu_backward.default", leaky_relu_backward},
    {"aten.rrelu_with_noise_backward.default", rrelu_backward},
    {"aten.hardtanh_backward.default", hardtanh_backward},
    {"aten.softplus_backward.default", softplus_backward},
    {"aten.silu_backward.default", silu_backward},
    {"aten.mish_backward.default", mish_backward},
    {"aten.hardswish_backward.default", hardswish_backward},
    {"aten.hardsigmoid_backward.default", hardsigmoid_backward},
    {"aten.log_sigmoid_backward.default", log_sigmoid_backward},
    {"aten.softshrink_backward.default", softshrink_backward},
    {"aten.hardshrink_backward.default", hardshrink_backward},
    {"aten.logit_backward.default", logit_backward},
    {"aten.glu_backward.default", glu_backward},
    {"aten._prelu_kernel_backward.default", prelu_backward},
    {"aten.native_dropout_backward.default", dropout_backward},
    {"aten.fake_quantize_per_tensor_affine_cachemask_backward.default", fake_quantize_backward},
    {"aten.fake_quantize_per_channel_affine_cachemask_backward.default", fake_quantize_backward},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> backward_activation_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
