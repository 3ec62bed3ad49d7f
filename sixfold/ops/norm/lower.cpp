// Softmax and normalizations on the NPU.
#include <algorithm>
#include <cmath>

#include "sixfold/lower/fit.h"
#include "sixfold/lower/merge_axes.h"

namespace sixfold::lower {
namespace {

Tensor filled(int64_t count, double value) {
  std::byte* bytes = nullptr;
  Tensor t = Tensor::allocate(DType::f32, {count}, &bytes);
  for (int64_t i = 0; i < count; ++i) reinterpret_cast<float*>(bytes)[i] = static_cast<float>(value);
  return t;
}

// What a normalized value is multiplied with: floats, or integers as wide as the activations. Wide ones are
// symmetric.
TensorRef gain(Lowering& l, const Tensor& data) {
  if (!l.quantized()) return l.constant(data);
  const qnn::DataType x = fixed_type(*l.encoding(0));
  const DType storage = qnn::storage_of(x) == DType::i8 ? DType::i8 : DType::u8;
  const DType wide = l.op() == Op::group_norm ? DType::u16 : DType::i16;
  const Encoding e = fitted(data, qnn::size_of(x) > 1 ? wide : storage);
  return l.constant(data, &e);
}
// What is added to it: 32 bits in fixed point.
TensorRef offset(Lowering& l, const Tensor& data) {
  if (!l.quantized()) return l.constant(data);
  const Encoding e = fitted(data, DType::i32);
  return l.constant(data, &e);
}

// A parameter [C] of the model, or `otherwise` for all. As its encoding says, if it has one.
TensorRef parameter(Lowering& l, size_t i, int64_t count, double otherwise, bool adds) {
  const Tensor* data = l.has(i) ? l.constant(i) : nullptr;
  if (l.has(i) && (!data || l.encoding(i))) {
    const TensorRef v = l.in_form(i, Form::plain);
    return l.rank(i) == 1 ? v : l.reshape(v, {static_cast<uint32_t>(count)});
  }
  Tensor flat = data ? to_contiguous(*data) : filled(count, otherwise);
  flat.shape = {count};
  return adds ? offset(l, flat) : gain(l, flat);
}

// A softmax of 8 bits cuts the scale of its result to a multiple of 2^-16: below, all results are the largest
// number. [htp.softmax.2]
constexpr float kFinestResult = 0x1p-16f;
// Finer steps of its operand give anything. Coarser ones than these would show in no result. [htp.softmax.3]
constexpr float kFinestOperand8 = 0x1p-14f, kFinestOperand16 = 0x1p-18f;

void add_softmax(Lowering& l, int64_t axis) {
  TensorRef x = l.in();
  const TensorRef out = l.out();
  if (!l.status().ok()) return;
  const bool bytes = qnn::size_of(l.spec(x).dtype) == 1;
  TensorRef y = out;
  if (l.quantized()) {
    if (const auto grid = coarser(l.spec(x), bytes ? kFinestOperand8 : kFinestOperand16)) {
      const TensorRef part = l.temp(l.spec(x).dims, l.spec(x).dtype, *grid);
      l.add("Convert", {x}, {part});
      x = part;
    }
    if (bytes && l.spec(out).dtype == qnn::DataType::ufixed8) {
      auto grid = coarser(l.spec(out), kFinestResult);
      // Nor has such a result a zero point.  [htp.softmax.4]
      if (!l.out_encoding()->zero_points.empty() && l.out_encoding()->zero_points[0] != 0)
        grid = qnn::ScaleOffset{1.0f / 255, 0};
      if (grid) y = l.temp(l.spec(out).dims, l.spec(out).dtype, *grid);
    }
  }
  l.add("Softmax", {x}, {y}, {{"axis", static_cast<uint32_t>(axis)}});
  if (y != out) l.add("Convert", {y}, {out});
}

// One group of an image is a layer norm of all its numbers in a line. The parameters are as long.
constexpr int64_t kLongestLine = 32768;

bool is_line(const Lowering& l, int64_t count) {
  const auto is_plain = [&](size_t i) { return !l.has(i) || (l.constant(i) && !l.encoding(i)); };
  return l.attrs().integer("groups") == 1 && count <= kLongestLine && is_plain(1) && is_plain(2);
}

Tensor repeated(const Tensor* data, int64_t count, double otherwise) {
  Tensor line = filled(count, otherwise);
  if (!data) return line;
  const Tensor flat = to_contiguous(*data);
  auto* to = reinterpret_cast<float*>(const_cast<std::byte*>(line.data));
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(element_real(flat, i % flat.count()));
  return line;
}

void norm_of_line(Lowering& l, int64_t count) {
  const Tensor gamma = repeated(l.has(1) ? l.constant(1) : nullptr, count, 1);
  const Tensor beta = repeated(l.has(2) ? l.constant(2) : nullptr, count, 0);
  const Encoding grid = fitted(gamma, fixed_bytes(*l.encoding(0)) > 1 ? DType::i16 : DType::u8);
  const std::vector<uint32_t> dims{static_cast<uint32_t>(l.shape()[0]), static_cast<uint32_t>(count)};
  const TensorRef x = l.reshape(l.in(), dims), y = l.out(), part = l.temp(dims, y);
  l.add("LayerNorm", {x, l.constant(gamma, &grid), offset(l, beta)}, {part},
        {{"epsilon", static_cast<float>(l.attrs().real("eps"))}, words("axes", {1})});
  l.add("Reshape", {part}, {y});
}

// x gain + shift for each channel in fixed point. The device's Batchnorm cuts gains to 8 bits of the largest,
// whatever their width.  [htp.norm.4]
void affine8(Lowering& l, TensorRef x, const Tensor& gain, const Tensor& shift, TensorRef y) {
  // A filter of one tap, whose scale is a channel's own.
  constexpr int64_t kMost = 127;
  constexpr double kLargestBias = 0x1p30;
  const auto step = static_cast<double>(l.encoding(0)->scales[0]);
  Encoding weight{.storage = DType::i8, .quant_min = -kMost, .quant_max = kMost, .axis = 3};
  Encoding bias{.storage = DType::i32, .quant_min = INT32_MIN, .quant_max = INT32_MAX, .axis = 0};
  for (int64_t c = 0; c < gain.count(); ++c) {
    // A bias has 32 bits: beside a large one little is seen of the gain.
    const double least = std::abs(element_real(shift, c)) / (step * kLargestBias);
    const double scale = std::max({std::abs(element_real(gain, c)) / kMost, least, 1e-30 / step});
    weight.scales.push_back(static_cast<float>(scale));
    bias.scales.push_back(static_cast<float>(scale * step));
  }
  weight.zero_points.assign(weight.scales.size(), 0);
  bias.zero_points = weight.zero_points;
  Tensor filter = gain;
  filter.shape = {1, 1, 1, gain.count()};
  l.add("DepthWiseConv2d", {x, l.constant(filter, &weight), l.constant(shift, &bias)}, {y},
        {words("stride", {1, 1}), words("pad_amount", {2, 2}, {0, 0, 0, 0}), words("dilation", {1, 1})});
}

// With 16 bits the library cannot prepare such a filter before a transposition. A product and a sum have 16
// bits for all channels' gains.
void affine16(Lowering& l, TensorRef x, const Tensor& gain, const Tensor& shift, TensorRef y) {
  const Encoding ex = *l.encoding(0), ey = *l.out_encoding();
  const auto end = [](const Encoding& e, int64_t number) {
    return static_cast<double>(number - e.zero_points[0]) * static_cast<double>(e.scales[0]);
  };
  // The product has room for what the operand's grid can give, and the result's can take.
  double low = 0, high = 0, least = 0, most = 0;
  for (int64_t c = 0; c < gain.count(); ++c) {
    const double g = element_real(gain, c), b = element_real(shift, c);
    for (const double v : {g * end(ex, ex.quant_min), g * end(ex, ex.quant_max)}) {
      low = std::min(low, v);
      high = std::max(high, v);
    }
    least = std::min(least, end(ey, ey.quant_min) - b);
    most = std::max(most, end(ey, ey.quant_max) - b);
  }
  std::byte* bytes = nullptr;
  const Tensor ends = Tensor::allocate(DType::f32, {2}, &bytes);
  reinterpret_cast<float*>(bytes)[0] = static_cast<float>(std::max(low, least));
  reinterpret_cast<float*>(bytes)[1] = static_cast<float>(std::min(high, most));
  const Encoding room = fitted(ends, DType::u16), eg = fitted(gain, DType::u16),
                 eb = fitted(shift, DType::u16);
  const TensorRef product = l.temp(l.spec(y).dims, fixed_type(room), quantization_of(room));
  l.add("ElementWiseMultiply", {x, l.constant(gain, &eg)}, {product});
  l.add("ElementWiseAdd", {product, l.constant(shift, &eb)}, {y});
}

}  // namespace

void softmax(Lowering& l) {
  const int64_t axis = l.axis(l.attrs().integer("dim"));
  if (axis + 1 != static_cast<int64_t>(l.rank()))
    return l.refuse(
        cat("the device has it along the last axis only, not ", axis, " of ", l.rank(), "  [htp.softmax.1]"));
  if (l.op() == Op::softmax) return add_softmax(l, axis);
  if (l.rank() <= 4) return l.add_simple("LogSoftmax", {{"axis", static_cast<uint32_t>(axis)}});
  const TensorRef x = l.in(), y = l.out();
  if (!l.status().ok()) return;
  std::vector<uint32_t> rows = around_axis(l.spec(x).dims, static_cast<size_t>(axis));
  rows.pop_back();
  const TensorRef part = l.temp(rows, y);
  l.add("LogSoftmax", {l.reshape(x, rows)}, {part}, {{"axis", uint32_t{1}}});
  l.add("Reshape", {part}, {y});
}

// Over the last axis: several trailing ones are one first.
void layer_norm(Lowering& l) {
  const bool rms = l.op() == Op::rms_norm;
  const Shape shape = l.shape();
  const auto axes = static_cast<size_t>(l.attrs().integer("axes"));
  int64_t count = 1;
  for (size_t i = shape.size() - axes; i < shape.size(); ++i) count *= shape[i];
  std::vector<uint32_t> dims(shape.begin(), shape.end() - static_cast<int64_t>(axes));
  dims.push_back(static_cast<uint32_t>(count));
  // The device gets most of an RMS norm of 8 bits wrong when rows lie along more than one axis, and one of
  // floats when that is behind a product.  [htp.norm.2]
  const bool wide = l.quantized() && fixed_bytes(*l.encoding(0)) > 1;
  const bool loses_rows = rms && !wide && dims.size() > 2 && numel(shape) != dims[dims.size() - 2] * count;
  if (dims.size() > 4 || loses_rows) {  // rows are all alike
    dims = around_axis(dims, dims.size() - 1);
    dims.pop_back();
  }
  const TensorRef x = l.in(), y = l.out();
  const TensorRef gamma = parameter(l, 1, count, 1, /*adds=*/false);
  // RmsNorm asks for an offset too. The device cuts its results, so half a step makes them the nearest.
  const Encoding* grid = l.quantized() ? l.out_encoding() : nullptr;
  const double half = grid ? 0.5 * static_cast<double>(grid->scales[0]) : 0;
  const TensorRef beta = rms ? offset(l, filled(count, half)) : parameter(l, 2, count, 0, /*adds=*/true);
  const auto last = static_cast<uint32_t>(dims.size() - 1);
  const std::vector<Param> params = {{"epsilon", static_cast<float>(l.attrs().real("eps"))},
                                     words("axes", {last})};
  const char* type = rms ? "RmsNorm" : "LayerNorm";
  if (axes == 1 && dims.size() == shape.size()) return l.add(type, {x, gamma, beta}, {y}, params);
  const TensorRef part = l.temp(dims, y);
  l.add(type, {l.reshape(x, dims), gamma, beta}, {part}, params);
  l.add("Reshape", {part}, {y});
}

// [N, H, W, C] for the device; other ranks are such an image.
void group_norm(Lowering& l) {
  const Shape shape = l.shape();
  const int64_t channels = shape[1], groups = l.attrs().integer("groups");
  int64_t pixels = 1;
  for (size_t i = 2; i < shape.size(); ++i) pixels *= shape[i];
  // Behind a sum, a product or a relu in fixed point the device's own gives anything at times: with one group
  // for some sizes, with several where channels are not whole blocks of 64, but not where each is a group.
  // [htp.norm.3]
  if (l.quantized() && groups < channels) {
    if (is_line(l, pixels * channels)) return norm_of_line(l, pixels * channels);
    if (groups == 1 || (channels > 32 && channels % 64 != 0))
      return l.refuse("in fixed point the device's group norm gives anything at times  [htp.norm.3]");
  }
  const TensorRef gamma = parameter(l, 1, channels, 1, /*adds=*/false);
  const TensorRef beta = parameter(l, 2, channels, 0, /*adds=*/true);
  const bool image = shape.size() == 4;
  const std::vector<uint32_t> dims{static_cast<uint32_t>(shape[0]), 1, static_cast<uint32_t>(pixels),
                                   static_cast<uint32_t>(channels)};
  const TensorRef x = image ? l.in() : l.reshape(l.in(), dims);
  const TensorRef y = l.out(), part = image ? y : l.temp(dims, y);
  l.add("GroupNorm", {x, gamma, beta}, {part},
        {{"epsilon", static_cast<float>(l.attrs().real("eps"))}, {"group", static_cast<uint32_t>(groups)}});
  if (!image) l.add("Reshape", {part}, {y});
}

// x w' + b' with w' = weight / sqrt(var + eps), b' = bias - mean w'
void batch_norm(Lowering& l) {
  const Shape shape = l.shape();
  const int64_t channels = shape[1];
  std::vector<double> p[4];  // weight, bias, mean, var
  for (size_t i = 0; i < 4; ++i) {
    p[i].assign(static_cast<size_t>(channels), i == 0 || i == 3 ? 1.0 : 0.0);
    if (!l.has(i + 1)) continue;
    const Tensor* t = l.constant(i + 1);
    if (!t || l.encoding(i + 1)) return l.refuse("its parameters are computed, the device needs constants");
    const Tensor flat = to_contiguous(*t);
    for (int64_t c = 0; c < channels; ++c) p[i][static_cast<size_t>(c)] = element_real(flat, c);
  }
  Tensor scale = filled(channels, 0), shift = filled(channels, 0);
  auto* w = reinterpret_cast<float*>(const_cast<std::byte*>(scale.data));
  auto* b = reinterpret_cast<float*>(const_cast<std::byte*>(shift.data));
  const double eps = l.attrs().real("eps");
  for (size_t c = 0; c < static_cast<size_t>(channels); ++c) {
    const double s = p[0][c] / std::sqrt(p[3][c] + eps);
    w[c] = static_cast<float>(s);
    b[c] = static_cast<float>(p[1][c] - p[2][c] * s);
  }
  const bool direct = shape.size() == 4 || (shape.size() == 2 && !l.quantized());
  std::vector<uint32_t> dims{static_cast<uint32_t>(shape[0]), 1, 1, static_cast<uint32_t>(channels)};
  for (size_t i = 2; i < shape.size(); ++i) dims[2] *= static_cast<uint32_t>(shape[i]);
  const TensorRef x = direct ? l.in() : l.reshape(l.in(), dims);
  const TensorRef y = l.out(), part = direct ? y : l.temp(dims, y);
  if (l.quantized())
    (fixed_bytes(*l.encoding(0)) == 1 ? affine8 : affine16)(l, x, scale, shift, part);
  else
    l.add("Batchnorm", {x, l.constant(scale), l.constant(shift)}, {part});
  if (!direct) l.add("Reshape", {part}, {y});
}

}  // namespace sixfold::lower
