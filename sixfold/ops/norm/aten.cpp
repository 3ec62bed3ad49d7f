// softmax, and layer, RMS, group, batch and instance normalization in all their spellings.
#include "sixfold/ops/aten.h"

#include <limits>
#include <span>

#include "sixfold/ops/expr.h"
#include "sixfold/ops/rule_table.h"

namespace sixfold::aten {
namespace {

Expr arg(Call& call, std::string_view name) { return {call, call.tensor(name)}; }
bool used(Call& call, size_t i) { return i < call.output_count() && call.is_used(i); }
DType result_dtype(Call& call, size_t i) {
  return i < call.output_count() ? call.output_type(i).dtype : DType::f32;
}

// ---- softmax

Expr softmax_input(Call& call) {
  const Expr x = arg(call, "self");
  if (call.attr("half_to_float")) return call.flag("half_to_float") ? x.to(DType::f32) : x;
  return x.to(call.dtype("dtype").value_or(to_float(x.dtype())));
}
template <Op op>
Status softmax(Call& call) {
  const Expr x = softmax_input(call);
  return call.result(x.apply(op, {{"dim", Dim(call.axis("dim", x))}}));
}
// A row that is all -inf gives 0.
Status safe_softmax(Call& call) {
  const Expr x = softmax_input(call);
  const int64_t dim = call.axis("dim", x);
  const Expr masked = x.equals(-std::numeric_limits<double>::infinity());
  const Expr empty = reduce(Op::all, masked, x.rank() == 0 ? Shape{} : Shape{dim}, /*keepdim=*/true);
  return call.result(where(empty, 0.0, x.apply(Op::softmax, {{"dim", Dim(dim)}})));
}

// ---- operands of a normalization, in one dtype: torch computes a half input with float parameters in float

struct Operands {
  Expr x;
  ValueId weight, bias;

  explicit Operands(Call& call, std::initializer_list<std::string_view> others = {}) : x(arg(call, "input")) {
    weight = call.optional_tensor("weight");
    bias = call.attr("bias") ? call.optional_tensor("bias") : kNoValue;
    DType dtype = x.dtype();
    for (const ValueId v : {weight, bias})
      if (v.valid()) dtype = promote(dtype, call.dtype_of(v));
    for (const std::string_view name : others)
      if (!call.is_none(name)) dtype = promote(dtype, call.dtype_of(call.tensor(name)));
    x = x.to(dtype);
    weight = call.to(weight, dtype);
    bias = call.to(bias, dtype);
  }
};

// The trailing axes that normalized_shape covers; 0 and an error when it does not fit x.
int64_t trailing_axes(Call& call, const Expr& x) {
  const Dims shape = call.dims("normalized_shape");
  const Dims& have = x.dims();
  bool fits = !shape.empty() && shape.size() <= have.size();
  for (size_t i = 0; fits && i < shape.size(); ++i) {
    const Dim& d = have[have.size() - shape.size() + i];
    fits = !d.is_static() || !shape[i].is_static() || d == shape[i];
  }
  if (fits) return static_cast<int64_t>(shape.size());
  call.fail(Code::InvalidModel, "normalized_shape ", shape, " does not end ", have);
  return 0;
}
Shape last_axes(const Expr& x, int64_t count) {
  Shape out;
  for (int64_t i = x.rank() - count; i < x.rank(); ++i) out.push_back(i);
  return out;
}

Status layer_norm(Call& call) {
  const Operands in(call);
  const int64_t axes = trailing_axes(call, in.x);
  const double eps = call.real("eps");
  std::vector<ValueId> results(call.output_count());
  const Expr y(call,
               call.op(Op::layer_norm, {in.x, in.weight, in.bias}, {{"axes", Dim(axes)}, {"eps", eps}}));
  results[0] = y.to(result_dtype(call, 0));
  const Expr x = in.x.to(compute_type(in.x.dtype()));
  const Shape dims = last_axes(x, axes);
  if (used(call, 1)) results[1] = mean(x, dims, /*keepdim=*/true).to(result_dtype(call, 1));
  if (used(call, 2)) results[2] = rsqrt(var(x, dims, 0, /*keepdim=*/true) + eps).to(result_dtype(call, 2));
  return call.results(results);
}

Status rms_norm(Call& call) {
  const Operands in(call);
  const int64_t axes = trailing_axes(call, in.x);
  const double machine_eps = in.x.dtype() == DType::f64 ? std::numeric_limits<double>::epsilon()
                                                        : std::numeric_limits<float>::epsilon();
  const double eps = call.real_or("eps", machine_eps);
  std::vector<ValueId> results(call.output_count());
  const Expr y(call, call.op(Op::rms_norm, {in.x, in.weight}, {{"axes", Dim(axes)}, {"eps", eps}}));
  results[0] = y.to(result_dtype(call, 0));
  const Expr x = in.x.to(compute_type(in.x.dtype()));
  if (used(call, 1))
    results[1] = rsqrt(mean(x * x, last_axes(x, axes), true) + eps).to(result_dtype(call, 1));
  return call.results(results);
}

ValueId group_norm_of(Call& call, const Operands& in, int64_t groups) {
  return call.op(Op::group_norm, {in.x, in.weight, in.bias},
                 {{"groups", Dim(groups)}, {"eps", call.real("eps")}});
}

Status group_norm(Call& call) {
  const Operands in(call);
  return call.result(call.to(group_norm_of(call, in, call.integer("num_groups")), result_dtype(call, 0)));
}

Status native_group_norm(Call& call) {
  Operands in(call);
  const Dims shape = in.x.dims();
  const int64_t groups = call.integer("group");
  const Dim n = call.dim("N"), c = call.dim("C"), inner = call.dim("HxW");
  if (groups < 1) return invalid_model("native_group_norm with ", groups, " groups");
  in.x = in.x.reshape({n, c, inner});
  std::vector<ValueId> results(call.output_count());
  results[0] = Expr(call, group_norm_of(call, in, groups)).reshape(shape).to(result_dtype(call, 0));
  const Expr x = in.x.to(compute_type(in.x.dtype())).reshape({n, Dim(groups), floordiv(c, groups) * inner});
  if (used(call, 1)) results[1] = mean(x, {2}).to(result_dtype(call, 1));
  if (used(call, 2)) results[2] = rsqrt(var(x, {2}, 0) + call.real("eps")).to(result_dtype(call, 2));
  return call.results(results);
}

// ---- batch normalization

// All axes but the channels'.
Shape batch_axes(const Expr& x) {
  Shape out;
  for (int64_t i = 0; i < x.rank(); ++i)
    if (i != 1) out.push_back(i);
  return out;
}

struct BatchNorm {
  Expr y, mean, var;
};

// With the running statistics, or with those of the batch.
BatchNorm batch_norm_of(Call& call, const Operands& in, bool training) {
  const Shape dims = batch_axes(in.x);
  const Expr mean = training ? sixfold::mean(in.x, dims) : arg(call, "running_mean").to(in.x.dtype());
  const Expr variance = training ? var(in.x, dims, 0) : arg(call, "running_var").to(in.x.dtype());
  const Attrs eps = {{"eps", call.real("eps")}};
  if (!training || !is_half(in.x.dtype())) {
    const Expr y(call, call.op(Op::batch_norm, {in.x, in.weight, in.bias, mean, variance}, eps));
    return {y, mean, variance};
  }
  // torch normalizes halves with the statistics that it returns: the mean and 1/std, each rounded to half.
  const auto wide = [&](ValueId v) { return call.to(v, DType::f32); };
  const Expr x(call, wide(in.x));
  const Expr exact = var(x, dims, 0);
  const Expr factor = rsqrt(exact + call.real("eps")).to(in.x.dtype()).to(DType::f32);
  const Expr rounded = x.number(1) / (factor * factor) - call.real("eps");
  const Expr y(call, call.op(Op::batch_norm, {x, wide(in.weight), wide(in.bias), wide(mean), rounded}, eps));
  return {y, mean, exact};
}

// (y), (y, mean, 1/std) or (y, mean, 1/std, reserve); the functional spellings append the new running
// statistics.
Status batch_norm(Call& call) {
  const bool has_stats = call.attr("running_mean") && !call.is_none("running_mean");
  const bool training =
      !has_stats || (call.attr("training") ? call.flag("training")
                                           : call.target().find("with_update") != std::string::npos);
  const Operands in = has_stats ? Operands(call, {"running_mean", "running_var"}) : Operands(call);
  if (in.x.rank() < 2) return invalid_model("batch norm of ", call.type(in.x), ", expected [N, C, ...]");
  const BatchNorm out = batch_norm_of(call, in, training);
  const size_t count = call.output_count();
  std::vector<ValueId> results(count);
  results[0] = out.y.to(result_dtype(call, 0));
  const auto empty = [&](DType dtype) {
    return call.op(Op::full, {}, {{"shape", Dims{Dim(0)}}, {"value", 0.0}, {"dtype", dtype}});
  };
  const auto statistic = [&](const Expr& x, size_t i) -> ValueId {
    return training ? ValueId(x.to(result_dtype(call, i))) : empty(result_dtype(call, i));
  };
  if (used(call, 1)) results[1] = statistic(out.mean, 1);
  if (used(call, 2))
    results[2] = training ? statistic(rsqrt(out.var + call.real("eps")), 2) : statistic(out.var, 2);
  if (count == 4 && used(call, 3)) results[3] = empty(result_dtype(call, 3));
  if (count >= 5) {
    const double momentum = call.real("momentum");
    const Expr old_mean = arg(call, "running_mean"), old_var = arg(call, "running_var");
    const auto blend = [&](const Expr& old, const Expr& now) {
      return training ? old * (1 - momentum) + now.to(old.dtype()) * momentum : old;
    };
    const size_t at = count - 2;
    if (used(call, at)) results[at] = blend(old_mean, out.mean);
    if (used(call, at + 1)) results[at + 1] = blend(old_var, var(in.x, batch_axes(in.x), 1));
    if (at == 4 && used(call, 3)) results[3] = empty(result_dtype(call, 3));
  }
  return call.results(results);
}

// Statistics of every sample and channel: a group per channel. Otherwise batch norm.
Status instance_norm(Call& call) {
  if (!call.flag("use_input_stats")) {
    const Operands in(call, {"running_mean", "running_var"});
    return call.result(batch_norm_of(call, in, /*training=*/false).y.to(result_dtype(call, 0)));
  }
  const Operands in(call);
  if (in.x.rank() < 2) return invalid_model("instance norm of ", call.type(in.x), ", expected [N, C, ...]");
  const Dim channels = in.x.dims()[1];
  if (!channels.is_static()) return call.unsupported(cat("instance norm of ", channels, " channels"));
  return call.result(call.to(group_norm_of(call, in, channels.value()), result_dtype(call, 0)));
}

constexpr AtenRule kRules[] = {
    {"aten.softmax.int", softmax<Op::softmax>},
    {"aten._softmax.default", softmax<Op::softmax>},
    {"aten.special_softmax.default", softmax<Op::softmax>},
    {"aten.log_softmax.int", softmax<Op::log_softmax>},
    {"aten._log_softmax.default", softmax<Op::log_softmax>},
    {"aten.special_log_softmax.default", softmax<Op::log_softmax>},
    {"aten._safe_softmax.default", safe_softmax},
    {"aten.layer_norm.default", layer_norm},
    {"aten.native_layer_norm.default", layer_norm},
    {"aten.rms_norm.default", rms_norm},
    {"aten._fused_rms_norm.default", rms_norm},
    {"aten.group_norm.default", group_norm},
    {"aten.native_group_norm.default", native_group_norm},
    {"aten.batch_norm.default", batch_norm},
    {"aten.native_batch_norm.default", batch_norm},
    {"aten._native_batch_norm_legit.default", batch_norm},
    {"aten._native_batch_norm_legit.no_stats", batch_norm},
    {"aten._native_batch_norm_legit_functional.default", batch_norm},
    {"aten._native_batch_norm_legit_no_training.default", batch_norm},
    {"aten._batch_norm_no_update.default", batch_norm},
    {"aten._batch_norm_with_update.default", batch_norm},
    {"aten._batch_norm_with_update_functional.default", batch_norm},
    {"aten.instance_norm.default", instance_norm},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> norm_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
