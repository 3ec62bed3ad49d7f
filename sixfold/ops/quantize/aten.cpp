// quantized_decomposed, torchao and fake quantization.
#include "sixfold/ops/aten.h"

#include <algorithm>
#include <limits>

#include "sixfold/ops/expr.h"
#include "sixfold/ops/rule_table.h"

namespace sixfold::aten {
namespace {

bool ok(const Call& call) { return call.ok(); }

struct Range {
  int64_t min = 0, max = 0;
};
Range range_of(DType dtype) {
  switch (dtype) {
    case DType::i8:
      return {-128, 127};
    case DType::u8:
      return {0, 255};
    case DType::i16:
      return {-32768, 32767};
    case DType::u16:
      return {0, 65535};
    default:
      return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
  }
}
// quant_min and quant_max: numbers, tensors of one known element, or none (all of the dtype).
Range range_argument(Call& call, DType dtype) {
  Range out = range_of(dtype);
  const auto read = [&](std::string_view name, int64_t& value) {
    if (call.is_none(name)) return;
    if (!call.is_tensor(name)) {
      value = static_cast<int64_t>(call.real(name));
      return;
    }
    const auto t = call.known(call.tensor(name));
    if (t && t->count() == 1)
      value = element_integer(*t, 0);
    else
      call.fail(Code::Unsupported, "its ", name, " is not constant");
  };
  read("quant_min", out.min);
  read("quant_max", out.max);
  if (out.min > out.max) call.fail(Code::InvalidModel, "a quantized range from ", out.min, " to ", out.max);
  return out;
}

// The smallest type that holds a range.
DType storage_for(const Range& r) {
  for (const DType d : {DType::i8, DType::u8, DType::i16, DType::u16})
    if (r.min >= range_of(d).min && r.max <= range_of(d).max) return d;
  return DType::i32;
}

struct Parameters {
  ValueId scale, zero_point;
  Dims block;
};

ValueId integers(Call& call, ValueId zero_point) {
  return zero_point.valid() && !is_integer(call.dtype_of(zero_point)) ? call.to(zero_point, DType::i32)
                                                                      : zero_point;
}

// One scale: a number (kept as the double that it is) or a tensor of one element.
Parameters per_tensor(Call& call, ValueId x) {
  Parameters p{kNoValue, kNoValue, call.dims_of(x)};
  p.scale = call.is_tensor("scale") ? call.reshape(call.tensor("scale"), {})
                                    : call.scalar(call.real("scale"), DType::f64);
  p.zero_point = call.is_tensor("zero_point") ? call.reshape(integers(call, call.tensor("zero_point")), {})
                                              : call.scalar(call.integer("zero_point"), DType::i32);
  return p;
}
Parameters per_channel(Call& call, ValueId x, std::string_view scale, std::string_view zero_point) {
  Parameters p{call.tensor(scale), integers(call, call.optional_tensor(zero_point)), call.dims_of(x)};
  const int64_t axis = call.axis("axis", x);
  if (ok(call) && axis < call.rank(x)) p.block[static_cast<size_t>(axis)] = Dim(1);
  return p;
}

ValueId quantize(Call& call, ValueId x, const Parameters& p, const Range& r, DType dtype) {
  std::vector<ValueId> operands{x, p.scale};
  if (p.zero_point.valid()) operands.push_back(p.zero_point);
  return call.op(
      Op::quantize, operands,
      {{"block", p.block}, {"quant_min", Dim(r.min)}, {"quant_max", Dim(r.max)}, {"dtype", dtype}});
}
ValueId dequantize(Call& call, ValueId q, const Parameters& p, const Range& r, DType dtype) {
  std::vector<ValueId> operands{q, p.scale};
  if (p.zero_point.valid()) operands.push_back(p.zero_point);
  return call.op(
      Op::dequantize, operands,
      {{"block", p.block}, {"quant_min", Dim(r.min)}, {"quant_max", Dim(r.max)}, {"dtype", dtype}});
}

DType integer_dtype(Call& call, std::string_view name) {
  const DType dtype = call.dtype(name).value_or(DType::none);
  if (!is_integer(dtype)) call.fail(Code::Unsupported, "it quantizes to ", dtype);
  return dtype;
}

Status quantize_per_tensor(Call& call) {
  const ValueId x = call.to(call.tensor("input"), DType::f32);
  const DType dtype = integer_dtype(call, "dtype");
  return call.result(quantize(call, x, per_tensor(call, x), range_argument(call, dtype), dtype));
}
Status dequantize_per_tensor(Call& call) {
  const ValueId q = call.tensor("input");
  return call.result(dequantize(call, q, per_tensor(call, q), range_argument(call, call.dtype_of(q)),
                                call.dtype("out_dtype").value_or(DType::f32)));
}
Status quantize_per_channel(Call& call) {
  const ValueId x = call.to(call.tensor("input"), DType::f32);
  const DType dtype = integer_dtype(call, "dtype");
  return call.result(
      quantize(call, x, per_channel(call, x, "scales", "zero_points"), range_argument(call, dtype), dtype));
}
Status dequantize_per_channel(Call& call) {
  const ValueId q = call.tensor("input");
  return call.result(dequantize(call, q, per_channel(call, q, "scales", "zero_points"),
                                range_argument(call, call.dtype_of(q)),
                                call.dtype("out_dtype").value_or(DType::f32)));
}

// These add the zero point before they round, which moves ties: not the canonical op.
Expr quantize_rows(Call& call, ValueId x, ValueId scales, ValueId zero_points, const Range& r) {
  const DType dtype = promote(call.dtype_of(x), call.dtype_of(scales));
  const Expr v(call, call.to(x, dtype)), s(call, call.to(scales, dtype)),
      z(call, call.to(zero_points, dtype));
  const Expr rounded = (v * (s.number(1.0) / s) + z).apply(Op::round);
  return rounded.apply(Op::clamp, {{"min", static_cast<double>(r.min)}, {"max", static_cast<double>(r.max)}});
}
Status quantize_per_token(Call& call) {
  const DType dtype = integer_dtype(call, "dtype");
  const Expr q = quantize_rows(call, call.tensor("input"), call.tensor("scales"), call.tensor("zero_points"),
                               range_argument(call, dtype));
  return call.result(q.to(dtype));
}
Status dequantize_per_token(Call& call) {
  const ValueId q = call.tensor("input");
  Parameters p{call.tensor("scales"), integers(call, call.tensor("zero_points")),
               Dims(call.type(q).rank(), Dim(1))};
  if (p.block.empty()) return invalid_model("tokens of a scalar");
  p.block.back() = call.dims_of(q).back();
  return call.result(dequantize(call, q, p, range_argument(call, call.dtype_of(q)),
                                call.dtype("output_dtype").value_or(DType::f32)));
}

int64_t group_size(Call& call, ValueId x) {
  const Shape shape = call.shape(x);
  int64_t group = call.integer("group_size");
  if (shape.size() != 2)
    call.fail(Code::InvalidModel, "groups of a tensor ", call.type(x));
  else
    group = std::min(group, shape[1]);
  if (group < 1 || (shape.size() == 2 && shape[1] % group != 0)) {
    call.fail(Code::InvalidModel, "groups of ", group, " in a tensor ", call.type(x));
    group = 1;
  }
  return group;
}
Status quantize_per_channel_group(Call& call) {
  const ValueId x = call.tensor("input");
  const int64_t group = group_size(call, x);
  const DType dtype = integer_dtype(call, "dtype");
  if (!ok(call)) return call.results({});
  const auto rows = [&](std::string_view name) {
    const ValueId t = call.tensor(name);
    return call.reshape(t, {numel(call.dims_of(t)), Dim(1)});
  };
  const ValueId flat = call.reshape(x, {floordiv(numel(call.dims_of(x)), Dim(group)), Dim(group)});
  const Expr q = quantize_rows(call, flat, rows("scales"), rows("zero_points"), range_argument(call, dtype));
  return call.result(q.to(dtype).reshape(Dims(call.dims_of(x))));
}
Status dequantize_per_channel_group(Call& call) {
  const ValueId q = call.tensor("input");
  const Parameters p{call.tensor("scales"),
                     integers(call, call.optional_tensor("zero_points")),
                     {Dim(1), Dim(group_size(call, q))}};
  return call.result(dequantize(call, q, p, range_argument(call, call.dtype_of(q)),
                                call.dtype("output_dtype").value_or(DType::f32)));
}

Status fake_quantize(Call& call, const Parameters& p) {
  const ValueId x = call.tensor("self");
  const Range r = range_argument(call, DType::i32);
  const ValueId q = quantize(call, call.to(x, DType::f32), p, r, storage_for(r));
  std::vector<ValueId> results(call.output_count(),
                               kNoValue);  // the mask of what was clamped is for training
  if (!results.empty()) results[0] = call.to(dequantize(call, q, p, r, DType::f32), call.dtype_of(x));
  return call.results(results);
}
Status fake_quantize_per_tensor(Call& call) {
  return fake_quantize(call, per_tensor(call, call.tensor("self")));
}
Status fake_quantize_per_channel(Call& call) {
  return fake_quantize(call, per_channel(call, call.tensor("self"), "scale", "zero_point"));
}
Status fake_quant_per_channel(Call& call) {
  const ValueId x = call.tensor("input");
  const Parameters p = per_channel(call, x, "scales", "zero_points");
  const Range r = range_argument(call, DType::i32);
  return call.result(dequantize(call, quantize(call, x, p, r, storage_for(r)), p, r, DType::f32));
}

Parameters affine(Call& call) {
  ValueId zero = integers(call, call.optional_tensor("zero_point"));
  if (zero.valid() && numel(call.dims_of(zero)) == Dim(0)) zero = kNoValue;
  return {call.tensor("scale"), zero, call.dims("block_size")};
}

// An axis of several blocks as two: [blocks, block]. `ones` is that shape with 1 where elements share a
// scale, `axes` are those axes.
struct BlockView {
  Dims split, ones;
  Shape axes;
};
BlockView block_view(const Dims& dims, const Dims& block) {
  BlockView v;
  const auto shared = [&](const Dim& size) {
    v.axes.push_back(static_cast<int64_t>(v.split.size()));
    v.split.push_back(size);
    v.ones.push_back(Dim(1));
  };
  for (size_t i = 0; i < dims.size(); ++i) {
    if (block[i] == dims[i] && !(block[i] == Dim(1))) {
      shared(dims[i]);
      continue;
    }
    v.split.push_back(block[i] == Dim(1) ? dims[i] : floordiv(dims[i], block[i]));
    v.ones.push_back(v.split.back());
    if (!(block[i] == Dim(1))) shared(block[i]);
  }
  return v;
}

Status quantize_affine(Call& call) {
  const ValueId input = call.tensor("input");
  const DType dtype = integer_dtype(call, "output_dtype"),
              computed = promote(call.dtype_of(input), call.dtype_of(call.tensor("scale")));
  if (ok(call) && is_half(computed)) {  // each step rounds to half
    const Parameters p = affine(call);
    const Range r = range_argument(call, dtype);
    const Dims dims = call.dims_of(input);
    if (p.block.size() != dims.size()) return invalid_model("blocks of ", p.block, " in a tensor ", dims);
    const BlockView view = block_view(dims, p.block);
    const Expr scale = Expr(call, call.reshape(p.scale, view.ones)).to(computed);
    Expr q = (Expr(call, call.reshape(call.to(input, computed), view.split)) * (scale.number(1.0) / scale))
                 .apply(Op::round);
    if (p.zero_point.valid()) q = q + Expr(call, call.reshape(p.zero_point, view.ones)).to(computed);
    q = q.apply(Op::clamp, {{"min", static_cast<double>(r.min)}, {"max", static_cast<double>(r.max)}});
    return call.result(q.reshape(dims).to(dtype));
  }
  const ValueId x = call.to(input, DType::f32);
  return call.result(quantize(call, x, affine(call), range_argument(call, dtype), dtype));
}
Status dequantize_affine(Call& call) {
  const ValueId q = call.tensor("input");
  return call.result(dequantize(call, q, affine(call),
                                range_argument(call, call.dtype("input_dtype").value_or(call.dtype_of(q))),
                                call.dtype("output_dtype").value_or(DType::f32)));
}

// Scale and zero point that cover [low, high] and zero.
struct Chosen {
  Expr scale, zero_point;
};
Chosen choose(const Expr& smallest, const Expr& largest, const Range& r, double eps, std::string_view mapping,
              double middle) {
  const Expr zero = smallest.number(0.0), low = minimum(smallest, zero), high = maximum(largest, zero);
  const auto min = static_cast<double>(r.min), max = static_cast<double>(r.max);
  if (mapping == "ASYMMETRIC") {
    const Expr scale = at_least((high - low) / (max - min), eps);
    const Expr z = min - (low / scale).apply(Op::round);
    return {scale, z.apply(Op::clamp, {{"min", min}, {"max", max}})};
  }
  const Expr raw =
      mapping == "SYMMETRIC" ? maximum(-low, high) / ((max - min) / 2) : maximum(low / min, high / max);
  const Expr scale = at_least(raw, eps);
  return {
      scale,
      {scale.call(), scale.call().op(Op::expand, {scale.number(middle)}, {{"shape", Dims(scale.dims())}})}};
}

double smallest_normal(DType dtype) {
  return dtype == DType::f16 ? 0x1p-14 : dtype == DType::f64 ? std::numeric_limits<double>::min() : 0x1p-126;
}

Status choose_affine(Call& call) {
  const ValueId x = call.tensor("input");
  const DType dtype = call.dtype_of(x), target = integer_dtype(call, "target_dtype");
  const Range r = range_argument(call, target);
  const std::string mapping = call.text("mapping_type");
  const Dims block = call.dims("block_size"), dims = call.dims_of(x);
  if (!ok(call)) return call.results({});
  if (block.size() != dims.size()) return invalid_model("blocks of ", block, " in a tensor ", dims);
  Dims kept;
  for (size_t i = 0; i < dims.size(); ++i)
    kept.push_back(block[i] == dims[i] ? Dim(1) : floordiv(dims[i], block[i]));
  const auto [split, ones, axes] = block_view(dims, block);
  if (axes.empty()) return call.unsupported("every element has a block of its own");
  const bool keepdim = call.flag("keepdim");
  const Expr flat(call, call.reshape(x, split));
  const Chosen c = choose(reduce(Op::amin, flat, axes, keepdim), reduce(Op::amax, flat, axes, keepdim), r,
                          call.real_or("eps", smallest_normal(dtype)), mapping,
                          static_cast<double>((r.max + r.min + 1) / 2));
  Expr scale = c.scale.to(call.dtype("scale_dtype").value_or(dtype));
  Expr zero = c.zero_point;
  if (const auto d = call.dtype("zero_point_dtype"))
    zero = zero.to(*d);
  else if (mapping == "ASYMMETRIC")
    zero = zero.to(DType::i32);
  if (keepdim) scale = scale.reshape(kept), zero = zero.reshape(kept);
  return call.results({scale, zero});
}

Status choose_tensor(Call& call, const char* mapping) {
  const Expr x(call, call.tensor("input"));
  const Range r = range_argument(call, DType::i32);
  const double middle = call.dtype("dtype") == DType::u8 ? 128.0 : 0.0;
  if (!ok(call)) return call.results({});
  const Chosen c = choose(reduce(Op::amin, x, every_axis(x)), reduce(Op::amax, x, every_axis(x)), r,
                          call.real("eps"), mapping, middle);
  return call.results(
      {c.scale.reshape({Dim(1)}).to(DType::f64), c.zero_point.reshape({Dim(1)}).to(DType::i64)});
}
Status choose_per_tensor(Call& call) { return choose_tensor(call, "ASYMMETRIC"); }
Status choose_per_tensor_symmetric(Call& call) { return choose_tensor(call, "SYMMETRIC"); }

Status choose_per_token(Call& call) {
  const Expr x(call, call.tensor("input"));
  if (!ok(call) || x.rank() == 0) return invalid_model("tokens of a scalar");
  const Shape last{x.rank() - 1};
  constexpr double kMin = -128, kMax = 127, kEps = 0x1p-23;
  const Expr smallest = reduce(Op::amin, x, last, true), largest = reduce(Op::amax, x, last, true);
  const Expr low = minimum(smallest, smallest.number(0.0)), high = maximum(largest, largest.number(0.0));
  const Expr scale = at_least((high - low) / (kMax - kMin), kEps);
  const Expr down = low / scale, up = high / scale;
  const Expr errors = (kMin + down) + (kMax + up);
  const Expr z = where(errors.number(0.0).less(errors), kMin - down, kMax - up);
  return call.results({scale.to(DType::f64),
                       z.apply(Op::clamp, {{"min", kMin}, {"max", kMax}}).apply(Op::round).to(DType::i64)});
}

Status not_computed(Call& call) { return call.unsupported("this quantized op is not computed"); }

constexpr AtenRule kRules[] = {
    {"quantized_decomposed.quantize_per_tensor.default", quantize_per_tensor},
    {"quantized_decomposed.quantize_per_tensor.tensor", quantize_per_tensor},
    {"quantized_decomposed.quantize_per_tensor.tensor2", quantize_per_tensor},
    {"quantized_decomposed.dequantize_per_tensor.default", dequantize_per_tensor},
    {"quantized_decomposed.dequantize_per_tensor.tensor", dequantize_per_tensor},
    {"quantized_decomposed.dequantize_per_tensor.tensor2", dequantize_per_tensor},
    {"quantized_decomposed.quantize_per_channel.default", quantize_per_channel},
    {"quantized_decomposed.dequantize_per_channel.default", dequantize_per_channel},
    {"quantized_decomposed.quantize_per_token.default", quantize_per_token},
    {"quantized_decomposed.dequantize_per_token.default", dequantize_per_token},
    {"quantized_decomposed.quantize_per_channel_group.default", quantize_per_channel_group},
    {"quantized_decomposed.dequantize_per_channel_group.default", dequantize_per_channel_group},
    {"quantized_decomposed.fake_quant_per_channel.default", fake_quant_per_channel},
    {"quantized_decomposed.choose_qparams.tensor", choose_per_tensor},
    {"quantized_decomposed.choose_qparams_symmetric.tensor", choose_per_tensor_symmetric},
    {"quantized_decomposed.choose_qparams_per_token_asymmetric.default", choose_per_token},
    {"quantized_decomposed._choose_qparams_per_token_asymmetric_impl.default", choose_per_token},
    {"quantized_decomposed.choose_qparams_per_token.default", not_computed},
    {"torchao.quantize_affine.default", quantize_affine},
    {"torchao.dequantize_affine.default", dequantize_affine},
    {"torchao.choose_qparams_affine.default", choose_affine},
    {"aten.fake_quantize_per_tensor_affine.default", fake_quantize_per_tensor},
    {"aten.fake_quantize_per_tensor_affine.tensor_qparams", fake_quantize_per_tensor},
    {"aten.fake_quantize_per_tensor_affine_cachemask.default", fake_quantize_per_tensor},
    {"aten.fake_quantize_per_channel_affine.default", fake_quantize_per_channel},
    {"aten.fake_quantize_per_channel_affine_cachemask.default", fake_quantize_per_channel},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> quantize_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
