// Weights and biases of convolutions and products.
#include <algorithm>
#include <cmath>

#include "sixfold/graph/stuffed.h"
#include "sixfold/lower/cut_bias.h"
#include "sixfold/lower/lowering.h"

namespace sixfold {

using qnn::DataType;
using qnn::TensorKind;
using qnn::TensorSpec;

TensorRef Lowering::weight(size_t i, const Shape& order, const Shape& reshaped, const Shape& zeros) {
  const ValueId v = node_.input(i);
  const Tensor* data = constant(i);
  if (!status().ok() || !data) return {};
  const bool fixed = quantized_ || halves_;
  TensorSpec t = island_.describe(v, {.form = Form::plain, .fixed = fixed});
  t.kind = TensorKind::constant;
  t.name = island_.unique_name(cat(t.name, "@weight"));
  Tensor source = !fixed && stored_integers(graph(), v) ? reals_of(*data, *encoding(i)) : *data;
  if (!reshaped.empty() && reshaped != source.shape) {
    source = to_contiguous(source);
    source.shape = reshaped;
  }
  if (!zeros.empty()) source = stuffed(source, Shape(zeros.size(), 1), zeros);
  Shape moved;
  for (size_t k = 0; k < source.shape.size(); ++k)
    moved.push_back(source.shape[order.empty() ? k : static_cast<size_t>(order[k])]);
  t.dims = to_extents(to_dims(moved));
  t.data = {.source = std::move(source), .order = order, .dtype = qnn::storage_of(t.dtype)};
  if (const Encoding* e = encoding(i); e && fixed) {
    t.quantization = quantization_of(*e, order);
    if (is_float(data->dtype))
      t.data.grid = {e->quant_min, e->quant_max, e->axis, e->block, e->scales, e->zero_points};
  }
  return island_.spec().add(std::move(t));
}

void Lowering::keep_from_powers_of_two(TensorRef weight, double by, double margin, double least) {
  if (!status().ok()) return;
  const auto keep = [&](float& scale) {
    int exponent = 0;
    const double factor = static_cast<double>(scale) * by;
    const double mantissa = std::frexp(factor, &exponent);  // [0.5, 1)
    if (factor < least) return;
    if (mantissa < 0.5 + margin || mantissa > 1 - margin) scale *= static_cast<float>(1 + 2 * margin);
  };
  std::visit(
      [&](auto& q) {
        if constexpr (requires { q.channels; })
          for (qnn::ScaleOffset& channel : q.channels) keep(channel.scale);
        else if constexpr (requires { q.all; })
          keep(q.all.scale);
        else if constexpr (requires { q.scale; })
          keep(q.scale);
      },
      island_.spec().tensors[weight.index].quantization);
}

bool Lowering::cuts_sums(size_t i, size_t x, size_t w) const {
  const ValueId v = node_.input(i);
  const auto is_real = [&](size_t k) { return constant(k) && is_float(constant(k)->dtype); };
  if (!quantized_ || halves_ || !is_real(w) || (v.valid() && (!is_real(i) || encoding(i)))) return false;
  const Encoding *ex = encoding(x), *ew = encoding(w);
  if (!ex || !ew || cut_of_sums(*ex, *ew) == 1) return false;
  if (node_.op != Op::convolution) return true;
  if (attrs().flag("transposed") && attrs().integer("groups") != 1) return false;
  // Filters for each channel that take such steps are computed by the vector unit, and those of one tap with
  // floats, which cut nothing.
  const Shape step = attrs().ints("stride");
  const int64_t groups = attrs().integer("groups");
  const bool unit = std::all_of(step.begin(), step.end(), [](int64_t s) { return s == 1; });
  if (unit && groups > 2 && numel(constant(w)->shape) == groups) return cut_of_sums(*ex, *ew) == 65536;
  const bool vector = step.size() == 2 && step[0] == step[1] && (step[0] == 2 || step[0] == 4);
  return cut_of_sums(*ex, *ew) == 65536 || groups == 1 || !vector;
}

TensorRef Lowering::bias_of_cut_sums(size_t i, size_t x, size_t w) {
  const Encoding &ex = *encoding(x), &ew = *encoding(w);
  const bool conv = node_.op == Op::convolution, transposed = conv && attrs().flag("transposed");
  const Shape out = out_shape();
  const int64_t channels = conv ? out[1] : out.back();
  Encoding e{.storage = DType::i32, .quant_min = INT32_MIN, .quant_max = INT32_MAX};
  e.axis = ew.axis < 0 ? -1 : 0;
  for (const float scale : ew.scales) e.scales.push_back(ex.scales[0] * scale);
  e.zero_points.assign(e.scales.size(), 0);
  TensorSpec t;
  t.name = island_.unique_name(cat(island_.describe(node_.output(), {}).name, "@bias"));
  t.kind = TensorKind::constant;
  t.dtype = DataType::sfixed32;
  t.dims = {static_cast<uint32_t>(channels)};
  t.data = {.source = biases_of_cut_sums(node_.input(i).valid() ? constant(i) : nullptr,
                                         transposed ? nullptr : constant(w), ex, ew, channels),
            .dtype = DType::i32};
  t.quantization = quantization_of(e);
  return island_.spec().add(std::move(t));
}

TensorRef Lowering::bias(size_t i, size_t x, size_t w) {
  const ValueId v = node_.input(i);
  if (!status().ok()) return {};
  if (cuts_sums(i, x, w)) return bias_of_cut_sums(i, x, w);
  if (!v.valid()) return {};
  const Tensor* data = constant(i);
  if (halves_) {
    const TensorRef wide = island_.view(v, {.form = Form::plain, .fixed = false});
    if (!data) return cast(wide, DataType::f16);
    TensorSpec t = spec(wide);
    t.name = island_.unique_name(cat(t.name, "@half"));
    t.dtype = DataType::f16;
    t.data.dtype = DType::f16;
    return island_.spec().add(std::move(t));
  }
  if (!quantized_ || !data) return island_.view(v, {.form = Form::plain, .fixed = quantized_});
  const Encoding* own = encoding(i);
  const Encoding *ex = encoding(x), *ew = encoding(w);
  if (!ex || !ew) {
    refuse("its bias needs the scales of operand and weight");
    return {};
  }
  // Blocks: the bias stands on a sixteenth of the channel's largest scale, as its accumulator does.
  Encoding e{.storage = DType::i32, .quant_min = INT32_MIN, .quant_max = INT32_MAX};
  const auto channels = static_cast<size_t>(numel(data->shape));
  e.axis = ew->axis < 0 ? -1 : 0;
  const size_t count = e.axis < 0 ? 1 : channels;
  const size_t blocks = ew->block > 0 ? ew->scales.size() / count : 1;
  for (size_t c = 0; c < count; ++c) {
    float scale = ew->scales[e.axis < 0 ? 0 : c * blocks % ew->scales.size()];
    for (size_t b = 1; b < blocks; ++b) scale = std::max(scale, ew->scales[c * blocks + b]);
    e.scales.push_back(ex->scales[0] * (ew->block > 0 ? scale / 16 : scale));
    e.zero_points.push_back(0);
  }
  // The device reads the integers on this grid, whatever the tensor says, but for one scale of a bias beside
  // one of a weight: those of another are rounded anew.
  const bool stored = own && !is_float(data->dtype);
  const bool alike =
      stored && own->storage == DType::i32 && own->scales.size() == e.scales.size() && own->block == 0;
  bool same = alike;
  for (size_t c = 0; c < e.scales.size() && same; ++c)
    same = std::abs(own->scales[c] - e.scales[c]) <= 1e-3f * e.scales[c];
  if (same) return island_.view(v, {.form = Form::plain, .fixed = true});
  const Tensor reals = to_contiguous(stored ? reals_of(*data, *own) : *data);
  for (int64_t c = 0; c < reals.count(); ++c) {  // of the model's own encodings: ours make room
    const double b = element_real(reals, c), step = e.scales[static_cast<size_t>(c) % e.scales.size()];
    if (std::abs(b) <= 2147483647.0 * step) continue;
    refuse(cat("its bias of ", b, " is beyond 32 bits in steps of operand times weight, ", step));
    return {};
  }
  if (alike && e.axis < 0 && ew->block == 0) return island_.view(v, {.form = Form::plain, .fixed = true});
  TensorSpec t;
  t.name = island_.unique_name(
      cat(graph().value(v).name.empty() ? cat("v", v.index) : graph().value(v).name, "@bias"));
  t.kind = TensorKind::constant;
  t.dtype = DataType::sfixed32;
  t.dims = {static_cast<uint32_t>(channels)};
  t.data = {.source = reals, .dtype = DType::i32};
  t.data.grid = {e.quant_min, e.quant_max, e.axis, 0, e.scales, e.zero_points};
  // Groups of a transposed convolution share their scales, and the device asks for as many as the weight has.
  if (e.axis >= 0 && ew->block == 0 && ew->scales.size() < e.scales.size()) {
    e.scales.resize(ew->scales.size());
    e.zero_points.resize(ew->scales.size());
  }
  t.quantization = quantization_of(e);
  return island_.spec().add(std::move(t));
}

}  // namespace sixfold
