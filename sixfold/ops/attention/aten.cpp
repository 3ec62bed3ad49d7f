#include "sixfold/ops/aten.h"

#include <cmath>

#include "sixfold/ops/rule_table.h"
#include "sixfold/ops/shapes.h"

namespace sixfold::aten {
namespace {

// Leading axes brought to `leading`, so that query, key and value share them.
ValueId with_leading(Call& call, ValueId x, const Dims& leading) {
  Dims shape = leading;
  const Dims& dims = call.dims_of(x);
  shape.insert(shape.end(), dims.end() - 3, dims.end());
  return dims == shape ? x : call.op(Op::expand, {x}, {{"shape", shape}});
}

ValueId attend(Call& call, std::string_view mask_name, std::string_view causal_name) {
  ValueId q = call.tensor("query"), k = call.tensor("key"), v = call.tensor("value");
  ValueId mask = mask_name.empty() ? kNoValue : call.optional_tensor(mask_name);
  const bool causal = call.flag(causal_name);
  if (!call.ok()) return kNoValue;
  if (call.rank(q) < 2 || call.rank(k) < 2 || call.rank(v) < 2) {
    call.fail(Code::InvalidModel, "query, key and value are ", call.type(q), ", ", call.type(k), " and ",
              call.type(v));
    return kNoValue;
  }
  const Dims out_shape = [&] {
    Dims dims = call.dims_of(q);
    dims.back() = call.dims_of(v).back();
    return dims;
  }();
  const bool flat = call.rank(q) == 2 && call.rank(k) == 2 && call.rank(v) == 2;  // no heads
  for (ValueId* x : {&q, &k, &v})
    if (call.rank(*x) == 2) *x = call.unsqueeze(*x, 0);
  if (!call.ok()) return kNoValue;

  // Batch axes broadcast.
  const auto leading = [&](ValueId x) { return Dims(call.dims_of(x).begin(), call.dims_of(x).end() - 3); };
  auto all = broadcast(leading(q), leading(k));
  if (all.ok()) all = broadcast(*all, leading(v));
  if (!all.ok()) {
    call.fail(all.take_error());
    return kNoValue;
  }
  const bool same_batch = leading(q) == leading(k) && leading(q) == leading(v);
  if (!same_batch) {
    q = with_leading(call, q, *all);
    k = with_leading(call, k, *all);
    v = with_leading(call, v, *all);
  }
  if (mask.valid() && call.dtype_of(mask) != DType::boolean) mask = call.to(mask, call.dtype_of(q));

  double scale = 0.0;
  if (call.is_none("scale")) {
    const Dim e = call.dims_of(q).empty() ? Dim(1) : call.dims_of(q).back();
    if (!e.is_static()) {
      call.fail(Code::Unsupported, "the scale follows from the extent ", e, ", and this op needs a number");
      return kNoValue;
    }
    scale = 1.0 / std::sqrt(static_cast<double>(std::max<int64_t>(e.value(), 1)));
  } else {
    scale = call.real("scale");
  }
  std::vector<ValueId> inputs{q, k, v};
  if (mask.valid()) inputs.push_back(mask);
  const ValueId out = call.op(Op::sdpa, std::move(inputs), {{"causal", causal}, {"scale", scale}});
  return flat ? call.reshape(out, out_shape) : out;
}

// The attention overloads differ in their outputs: only the first is computed.
Status first_result(Call& call, std::string_view mask_name, std::string_view causal_name) {
  if (call.real("dropout_p") != 0.0) return call.unsupported("dropout in attention gives random results");
  std::vector<ValueId> results(call.output_count(), kNoValue);
  if (results.empty()) return invalid_model("attention without outputs");
  results[0] = attend(call, mask_name, causal_name);
  return call.results(results);
}

Status sdpa(Call& call) { return first_result(call, "attn_mask", "is_causal"); }
Status sdpa_with_bias(Call& call) { return first_result(call, "attn_bias", "is_causal"); }
Status sdpa_without_mask(Call& call) { return first_result(call, "", "is_causal"); }

Status fast_path(Call& call) {
  return call.unsupported(
      "the fused transformer fast path is not exported by torch.export; export the module without it");
}

constexpr AtenRule kRules[] = {
    {"aten.scaled_dot_product_attention.default", sdpa},
    {"aten._scaled_dot_product_attention_math.default", sdpa},
    {"aten._scaled_dot_product_flash_attention_for_cpu.default", sdpa},
    {"aten._scaled_dot_product_flash_attention.default", sdpa_without_mask},
    {"aten._scaled_dot_product_efficient_attention.default", sdpa_with_bias},
    {"aten._scaled_dot_product_fused_attention_overrideable.default", sdpa_with_bias},
    {"aten._native_multi_head_attention.default", fast_path},
    {"aten._transformer_encoder_layer_fwd.default", fast_path},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> attention_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
