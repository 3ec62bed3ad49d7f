#include "sixfold/ops/elementwise.h"
#include "sixfold/ops/rule_table.h"

namespace sixfold::aten {
namespace {

Status same_value(Call& call) { return call.result(call.tensor("self")); }

// Memory format, device and copying are no part of a functional graph.
Status to_dtype(Call& call) {
  const ValueId x = call.tensor("self");
  const auto dtype = call.dtype("dtype");
  return call.result(dtype ? call.to(x, *dtype) : x);
}
Status to_other(Call& call) {
  return call.result(call.to(call.tensor("self"), call.dtype_of(call.tensor("other"))));
}
Status convert_element_type(Call& call) {
  const auto dtype = call.dtype("dtype");
  return call.result(call.to(call.tensor("a"), dtype.value_or(DType::f32)));
}
Status prims_same(Call& call) { return call.result(call.tensor("a")); }
Status prims_scalar(Call& call) {
  const DType natural = result_type(call, {"s"});
  return call.result(call.tensor_or_scalar("s", call.dtype("dtype").value_or(natural)));
}
template <DType dtype>
Status cast(Call& call) {
  return call.result(call.to(call.tensor("self"), dtype));
}

Status autocast_reduced(Call& call) {
  const ValueId x = call.tensor("self");
  const auto dtype = call.dtype("cpu_dtype");
  const bool applies = call.flag("cpu_enabled") && call.dtype_of(x) == DType::f32 && dtype;
  return call.result(applies ? call.to(x, *dtype) : x);
}
Status autocast_full(Call& call) {
  const ValueId x = call.tensor("self");
  return call.result(call.flag("cpu_enabled") && is_half(call.dtype_of(x)) ? call.to(x, DType::f32) : x);
}

Status fill_with(Call& call, Attr value) {
  const ValueId x = call.tensor("self");
  return call.result(Formula{call}.full(call.dims_of(x), std::move(value), call.dtype_of(x)));
}
Status fill(Call& call) {
  const DType dtype = call.dtype_of(call.tensor("self"));
  if (dtype == DType::boolean) return fill_with(call, call.real("value") != 0);
  return fill_with(call, number(call, "value", dtype));
}
Status zero(Call& call) {
  const DType dtype = call.dtype_of(call.tensor("self"));
  return fill_with(call, dtype == DType::boolean ? Attr(false) : is_float(dtype) ? Attr(0.0) : Attr(Dim(0)));
}

// source, converted and broadcast to self
Status spread(Call& call, std::string_view source) {
  const ValueId x = call.tensor("self");
  const ValueId y = operand(call, source, call.dtype_of(x));
  if (!call.ok() || call.dims_of(y) == call.dims_of(x)) return call.result(y);
  return call.result(call.op(Op::expand, {y}, {{"shape", call.dims_of(x)}}));
}
Status fill_tensor(Call& call) { return spread(call, "value"); }
Status copy(Call& call) { return spread(call, "src"); }

// Dropout does nothing in evaluation; in training it draws numbers that no other engine could repeat.
bool drops(Call& call, bool train) { return train && call.real("p") != 0; }
Status dropout(Call& call) {
  if (drops(call, call.flag("train"))) return call.unsupported("dropout in training is random");
  return call.result(call.tensor("input"));
}
Status native_dropout(Call& call) {
  if (drops(call, call.flag_or("train", true))) return call.unsupported("dropout in training is random");
  const ValueId x = call.tensor("input");
  return call.results({x, Formula{call}.full(call.dims_of(x), true, DType::boolean)});
}
Status random(Call& call) { return call.unsupported("random numbers: no other engine could repeat them"); }

constexpr AtenRule kRules[] = {
    {"aten.to.dtype", to_dtype},
    {"aten.to.dtype_layout", to_dtype},
    {"aten.to.device", to_dtype},
    {"aten.to.other", to_other},
    {"aten._to_copy.default", to_dtype},
    {"dim_order_ops._to_dim_order_copy.default", to_dtype},
    {"aten.type_as.default", to_other},
    {"aten._cast_Float.default", cast<DType::f32>},
    {"aten._cast_Double.default", cast<DType::f64>},
    {"aten._cast_Half.default", cast<DType::f16>},
    {"aten._cast_Int.default", cast<DType::i32>},
    {"aten._cast_Long.default", cast<DType::i64>},
    {"aten._cast_Short.default", cast<DType::i16>},
    {"aten._cast_Char.default", cast<DType::i8>},
    {"aten._cast_Byte.default", cast<DType::u8>},
    {"aten._autocast_to_reduced_precision.default", autocast_reduced},
    {"aten._autocast_to_full_precision.default", autocast_full},
    {"aten.positive.default", same_value},
    {"aten.data.default", same_value},
    {"aten.conj.default", same_value},
    {"aten.conj_physical.default", same_value},
    {"aten._lazy_clone.default", same_value},
    {"aten.pin_memory.default", same_value},
    {"aten._pin_memory.default", same_value},
    {"aten.fill.Scalar", fill},
    {"aten.fill.Tensor", fill_tensor},
    {"aten.zero.default", zero},
    {"aten.copy.default", copy},
    {"aten.dropout.default", dropout},
    {"aten.alpha_dropout.default", dropout},
    {"aten.feature_dropout.default", dropout},
    {"aten.feature_alpha_dropout.default", dropout},
    {"aten.native_dropout.default", native_dropout},
    {"aten._fused_dropout.default", random},
    {"prims.convert_element_type.default", convert_element_type},
    {"prims.device_put.default", prims_same},
    {"prims.view_of.default", prims_same},
    {"prims.scalar_tensor.default", prims_scalar},
    {"prims.fill.default", fill},
    {"aten.bernoulli.default", random},
    {"aten.bernoulli.p", random},
    {"aten.bernoulli.Tensor", random},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> copy_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
