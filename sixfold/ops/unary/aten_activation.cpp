#include "sixfold/ops/elementwise.h"
#include "sixfold/ops/rule_table.h"

namespace sixfold::aten {
namespace {

template <Op op>
Status activation(Call& call) {
  return call.result(call.op(op, {call.tensor("self")}));
}

// torch computes the sigmoid of integers in float, the other activations not at all.
Status sigmoid(Call& call) { return call.result(call.op(Op::sigmoid, {float_operand(call, "self")})); }
Status tanh(Call& call) { return call.result(call.op(Op::tanh, {float_operand(call, "self")})); }

Status gelu(Call& call) {
  const std::string approximate = call.text("approximate");
  if (approximate != "none" && approximate != "tanh")
    return call.unsupported("gelu approximates by none or tanh only");
  return call.result(call.op(Op::gelu, {call.tensor("self")}, {{"approximate", approximate}}));
}

Status elu_with(Call& call, double alpha, double scale, double input_scale) {
  return call.result(call.op(Op::elu, {call.tensor("self")},
                             {{"alpha", alpha}, {"scale", scale}, {"input_scale", input_scale}}));
}
Status elu(Call& call) {
  return elu_with(call, call.real("alpha"), call.real("scale"), call.real("input_scale"));
}
Status selu(Call& call) {
  return elu_with(call, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1);
}
Status celu(Call& call) { return elu_with(call, call.real("alpha"), 1, 1 / call.real("alpha")); }

Status leaky(Call& call, double slope) {
  return call.result(call.op(Op::leaky_relu, {call.tensor("self")}, {{"slope", slope}}));
}
Status leaky_relu(Call& call) { return leaky(call, call.real("negative_slope")); }

// Evaluation uses the middle slope; training draws one per element.
Status rrelu(Call& call) {
  if (call.flag("training")) return call.unsupported("rrelu in training is random");
  return leaky(call, (call.real("lower") + call.real("upper")) / 2);
}
Status rrelu_with_noise(Call& call) {
  if (call.flag("training")) return call.unsupported("rrelu in training is random");
  const double slope = (call.real("lower") + call.real("upper")) / 2;
  const ValueId y = call.op(Op::leaky_relu, {call.tensor("self")}, {{"slope", slope}});
  if (call.output_count() == 1) return call.result(y);
  return call.results({y, call.tensor("noise")});
}

Status softplus(Call& call) {
  return call.result(Formula{call}.softplus(call.tensor("self"), call.real("beta"), call.real("threshold")));
}

// -log(1 + e^-x). From 40 on log(1 + e^x) is x, even to double.
ValueId log_sigmoid_of(Call& call) {
  Formula f{call};
  return f.un(Op::neg, f.softplus(f.un(Op::neg, call.tensor("self")), 1, 40));
}
Status log_sigmoid(Call& call) { return call.result(log_sigmoid_of(call)); }
Status log_sigmoid_forward(Call& call) { return call.results({log_sigmoid_of(call), kNoValue}); }

// The result has the dtype of all: an integer tensor clamped by a float becomes float.
Status clamp_by(Call& call, const char* low, const char* high) {
  const DType dtype = result_type(call, {"self", low, high});
  const ValueId x = operand(call, "self", dtype);
  return call.result(Formula{call}.clamp(x, number(call, low, dtype), number(call, high, dtype)));
}
Status clamp(Call& call) { return clamp_by(call, "min", "max"); }

Status clamp_tensor(Call& call) {
  const DType dtype = result_type(call, {"self", "min", "max"});
  ValueId x = operand(call, "self", dtype);
  if (!call.is_none("min")) x = call.op(Op::maximum, {x, operand(call, "min", dtype)});
  if (!call.is_none("max")) x = call.op(Op::minimum, {x, operand(call, "max", dtype)});
  return call.result(x);
}

// Unlike clamp, hardtanh keeps the operand's dtype.
Status hardtanh(Call& call) {
  const ValueId x = call.tensor("self");
  const DType dtype = call.dtype_of(x);
  return call.result(Formula{call}.clamp(x, number(call, "min_val", dtype), number(call, "max_val", dtype)));
}
Status relu6(Call& call) {
  const ValueId x = call.tensor("self");
  const bool real = is_float(call.dtype_of(x));
  return call.result(
      Formula{call}.clamp(x, real ? Attr(0.0) : Attr(Dim(0)), real ? Attr(6.0) : Attr(Dim(6))));
}

// x where x > threshold (or NaN), else value
Status threshold(Call& call) {
  const ValueId x = call.tensor("self");
  const DType dtype = call.dtype_of(x);
  const ValueId below = call.op(Op::le, {x, operand(call, "threshold", dtype)});
  return call.result(Formula{call}.where(below, operand(call, "value", dtype), x));
}

// x - clamp(x, -lambda, lambda)
Status softshrink(Call& call) {
  Formula f{call};
  const ValueId x = call.tensor("self");
  const double lambda = call.real("lambd");
  return call.result(f.sub(x, f.clamp(x, -lambda, lambda)));
}
Status hardshrink(Call& call) {
  Formula f{call};
  const ValueId x = call.tensor("self");
  return call.result(f.where(f.cmp(Op::le, f.un(Op::abs, x), call.real("lambd")), f.num(0, x), x));
}

// a sigmoid(b), a and b the halves of x along dim
Status glu(Call& call) {
  const ValueId x = call.tensor("self");
  const int64_t dim = call.axis("dim", x);
  if (!call.ok()) return {};
  if (call.rank(x) == 0) return call.unsupported("glu of a tensor without axes");
  const Dim extent = call.dims_of(x)[static_cast<size_t>(dim)];
  const Dim half = floordiv(extent, Dim(2));
  if (extent.is_static() && extent.value() % 2 != 0)
    return invalid_model("glu halves an axis of odd extent ", extent);
  const ValueId w = call.to(x, wide(call.dtype_of(x)));
  const ValueId a = call.slice(w, dim, Dim(0), half);
  const ValueId b = call.slice(w, dim, half, extent);
  return narrowed(call, call.op(Op::mul, {a, call.op(Op::sigmoid, {b})}));
}

// x where positive, else weight * x; the weight stands for axis 1.
Status prelu(Call& call) {
  const ValueId x = call.tensor("self");
  ValueId weight = call.tensor("weight");
  if (!call.ok()) return {};
  Dim count = numel(call.dims_of(weight));
  weight = call.reshape(weight, {count});
  return call.result(call.op(Op::prelu, {x, weight}));
}
// The weight already has x's rank. Where only axis 1 of it is longer than 1 this is prelu.
Status prelu_kernel(Call& call) {
  const ValueId x = call.tensor("self");
  const ValueId weight = call.tensor("weight");
  if (!call.ok()) return {};
  const Dims& dims = call.dims_of(weight);
  bool per_channel = true;
  for (size_t d = 0; d < dims.size(); ++d) per_channel = per_channel && (d == 1 || dims[d] == Dim(1));
  if (per_channel && (dims.size() > 1 ? dims.size() == call.type(x).rank() : true)) return prelu(call);
  Formula f{call};
  return call.result(f.where(f.cmp(Op::gt, x, 0), x, f.mul(x, weight)));
}

constexpr AtenRule kRules[] = {
    {"aten.relu.default", activation<Op::relu>},
    {"aten.relu6.default", relu6},
    {"aten.silu.default", activation<Op::silu>},
    {"aten.mish.default", activation<Op::mish>},
    {"aten.hardswish.default", activation<Op::hardswish>},
    {"aten.hardsigmoid.default", activation<Op::hardsigmoid>},
    {"aten.sigmoid.default", sigmoid},
    {"aten.special_expit.default", sigmoid},
    {"aten.tanh.default", tanh},
    {"aten.gelu.default", gelu},
    {"aten.elu.default", elu},
    {"aten.selu.default", selu},
    {"aten.celu.default", celu},
    {"aten.leaky_relu.default", leaky_relu},
    {"aten.rrelu.default", rrelu},
    {"aten.rrelu_with_noise.default", rrelu_with_noise},
    {"aten.rrelu_with_noise_functional.default", rrelu_with_noise},
    {"aten.softplus.default", softplus},
    {"aten.log_sigmoid.default", log_sigmoid},
    {"aten.log_sigmoid_forward.default", log_sigmoid_forward},
    {"aten.clamp.default", clamp},
    {"aten.clip.default", clamp},
    {"aten.clamp_min.default", clamp},
    {"aten.clamp_max.default", clamp},
    {"aten.clamp.Tensor", clamp_tensor},
    {"aten.clip.Tensor", clamp_tensor},
    {"aten.clamp_min.Tensor", clamp_tensor},
    {"aten.clamp_max.Tensor", clamp_tensor},
    {"aten.hardtanh.default", hardtanh},
    {"aten.threshold.default", threshold},
    {"aten.softshrink.default", softshrink},
    {"aten.hardshrink.default", hardshrink},
    {"aten.glu.default", glu},
    {"aten.prelu.default", prelu},
    {"aten._prelu_kernel.default", prelu_kernel},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> activation_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
