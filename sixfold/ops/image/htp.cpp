// Images as ops that the NPU has.
#include "sixfold/rewrite/htp.h"

#include <cmath>

#include "sixfold/execute/evaluate.h"

namespace sixfold::htp {
namespace {

// How an axis is resampled, as a matrix [in, out]: what becomes of each unit vector.
Result<Tensor> weights_along(const Attrs& attrs, size_t axis, int64_t in, int64_t out) {
  std::byte* bytes = nullptr;
  Tensor unit = Tensor::allocate(DType::f32, {in, 1, 1, in}, &bytes);
  for (int64_t i = 0; i < in; ++i) reinterpret_cast<float*>(bytes)[i * in + i] = 1;
  Attrs one = attrs;
  one.set("size", to_dims({1, out}));
  one.set("scales", std::vector<double>{0, attrs.reals("scales")[axis]});
  SF_ASSIGN(std::vector<Tensor> rows, evaluate(Op::upsample, {&unit, 1}, one));
  Tensor matrix = to_contiguous(rows[0]);
  matrix.shape = {in, out};
  return matrix;
}

// Axis by axis as products with constant matrices: the last axis x M, others M^T x.
Match resampled(Htp& h) {
  const ValueId x = h.in();
  const Shape in = h.shape(x), out = static_shape(h.out_type().dims);
  ValueId y = x;
  for (size_t i = 0; i + 2 < in.size(); ++i) {
    const size_t a = i + 2;
    auto matrix = weights_along(h.attrs(), i, in[a], out[a]);
    if (!matrix.ok()) return matrix.take_error();
    const ValueId m = h.patch.constant(std::move(*matrix));
    if (a + 1 == in.size()) {
      y = h.add(Op::matmul, {y, m});
      continue;
    }
    // [.., A, rest] as [.., A, R]: the axis is a row of the product.
    const Dims before = h.dims(y);
    Dims flat(before.begin(), before.begin() + static_cast<int64_t>(a) + 1), after = before;
    Dim rest(1);
    for (size_t k = a + 1; k < before.size(); ++k) rest = rest * before[k];
    flat.push_back(rest);
    after[a] = Dim(out[a]);
    y = h.reshape(h.add(Op::matmul, {h.permute(m, {1, 0}), h.reshape(y, flat)}), after);
  }
  return h.result(y);
}

}  // namespace

Match upsample(Htp& h) {
  const Attrs& a = h.attrs();
  const ValueId x = h.in();
  if (!is_float(h.dtype(x))) return h.unsupported("the device resamples floats only");
  const Shape in = h.shape(x), out = static_shape(h.out_type().dims);
  const std::string& mode = a.text("mode");
  const std::vector<double> scales = a.reals("scales");
  bool own_scale = false, whole = true;
  for (size_t i = 0; i + 2 < in.size(); ++i) {
    const double ratio = static_cast<double>(out[i + 2]) / static_cast<double>(in[i + 2]);
    own_scale = own_scale || (scales[i] != 0 && std::abs(scales[i] - ratio) > 1e-9 * ratio);
    whole = whole && out[i + 2] % in[i + 2] == 0;
  }
  // The device takes its scale from the extents.
  if ((a.has("antialias") && a.flag("antialias")) || own_scale) return resampled(h);
  if (mode == "cubic" && in.size() != 4) return resampled(h);
  return no_match("the device has it");
}

Match grid_sampler(Htp&) { return no_match("the device has it"); }

// Leading axes are one.
Match pixel_shuffle(Htp& h) {
  const ValueId x = h.in();
  const int64_t rank = h.rank(x);
  if (rank == 4) return no_match("the device has it");
  const Dims d = h.dims(x);
  Dim batch(1);
  for (size_t i = 0; i + 3 < d.size(); ++i) batch = batch * d[i];
  const ValueId y =
      h.add(h.op(), {h.reshape(x, {batch, d[d.size() - 3], d[d.size() - 2], d[d.size() - 1]})}, h.attrs());
  return h.result(h.reshape(y, h.out_type().dims));
}

// Each tap of the window is a strided slice: [N, C, taps, L] read as [N, C * taps, L].
Match im2col(Htp& h) {
  const Attrs& a = h.attrs();
  const ValueId x = h.in();
  const Shape in = h.shape(x), kernel = a.ints("kernel"), dilation = a.ints("dilation"),
              padding = a.ints("padding"), stride = a.ints("stride");
  Shape out;
  for (size_t i = 0; i < 2; ++i)
    out.push_back((in[i + 2] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) / stride[i] + 1);
  const ValueId around = h.add(Op::pad, {x},
                               {{"before", to_dims({0, 0, padding[0], padding[1]})},
                                {"after", to_dims({0, 0, padding[0], padding[1]})},
                                {"mode", "constant"},
                                {"value", 0.0}});
  std::vector<ValueId> taps;
  for (int64_t i = 0; i < kernel[0]; ++i)
    for (int64_t j = 0; j < kernel[1]; ++j) {
      const int64_t top = i * dilation[0], left = j * dilation[1];
      const ValueId rows = h.slice(around, 2, top, top + (out[0] - 1) * stride[0] + 1, stride[0]);
      const ValueId tap = h.slice(rows, 3, left, left + (out[1] - 1) * stride[1] + 1, stride[1]);
      taps.push_back(h.reshape(tap, to_dims({in[0], in[1], 1, out[0] * out[1]})));
    }
  return h.result(h.reshape(h.concat(std::move(taps), 2), h.out_type().dims));
}

// The sum of all taps, each at its place. Not as a sum of padded images: the library gets those wrong that
// have nine or so. [htp.col2im.1]
Match col2im(Htp& h) {
  const Attrs& a = h.attrs();
  const ValueId x = h.in();
  const Shape in = h.shape(x), size = a.ints("size"), kernel = a.ints("kernel"),
              dilation = a.ints("dilation"), padding = a.ints("padding"), stride = a.ints("stride");
  const int64_t taps = kernel[0] * kernel[1], channels = in[1] / taps;
  Shape steps;
  for (size_t i = 0; i < 2; ++i)
    steps.push_back((size[i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) / stride[i] + 1);
  const bool tiles = stride == kernel && dilation == Shape{1, 1};
  if (tiles && steps[0] * kernel[0] == size[0] + 2 * padding[0] &&
      steps[1] * kernel[1] == size[1] + 2 * padding[1]) {
    // Windows side by side: rows and columns of each change places with the windows'.
    ValueId y = h.reshape(x, to_dims({in[0] * channels, kernel[0], kernel[1], steps[0] * steps[1]}));
    y = h.reshape(
        h.permute(h.reshape(y, to_dims({in[0] * channels * kernel[0], kernel[1], steps[0], steps[1]})),
                  {0, 2, 3, 1}),
        to_dims({in[0] * channels, kernel[0], steps[0], steps[1] * kernel[1]}));
    y = h.reshape(h.permute(y, {0, 2, 1, 3}),
                  to_dims({in[0], channels, size[0] + 2 * padding[0], size[1] + 2 * padding[1]}));
    y = h.slice(y, 2, padding[0], padding[0] + size[0]);
    return h.result(h.reshape(h.slice(y, 3, padding[1], padding[1] + size[1]), h.out_type().dims));
  }
  // A convolution that is transposed: of each channel's taps, one goes to each place of the filter. The
  // device has no dilation there, so the filter has the zeros.
  Shape extent, more;  // more: rows and columns that no window reaches
  for (size_t i = 0; i < 2; ++i) {
    extent.push_back(dilation[i] * (kernel[i] - 1) + 1);
    more.push_back(size[i] + 2 * padding[i] - (steps[i] - 1) * stride[i] - extent[i]);
  }
  std::byte* bytes = nullptr;
  Tensor filter = Tensor::allocate(DType::f32, {in[1], 1, extent[0], extent[1]}, &bytes);
  for (int64_t i = 0; i < in[1]; ++i) {
    const int64_t row = i % taps / kernel[1] * dilation[0], column = i % kernel[1] * dilation[1];
    reinterpret_cast<float*>(bytes)[(i * extent[0] + row) * extent[1] + column] = 1;
  }
  const ValueId points = h.reshape(x, to_dims({in[0], in[1], steps[0], steps[1]}));
  const ValueId y = h.add(Op::convolution, {points, h.patch.constant(std::move(filter)), kNoValue},
                          {{"stride", to_dims(stride)},
                           {"padding", to_dims(padding)},
                           {"padding_end", to_dims(padding)},
                           {"dilation", Dims{1, 1}},
                           {"transposed", true},
                           {"output_padding", to_dims(more)},
                           {"groups", Dim(channels)},
                           {"activation", std::string("none")}});
  return h.result(h.reshape(y, h.out_type().dims));
}

}  // namespace sixfold::htp
