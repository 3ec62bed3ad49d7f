// convolution: reads the call, chooses the kernel.
#include <algorithm>

#include "sixfold/ops/conv/conv.h"
#include "sixfold/ops/matmul/linear.h"

namespace sixfold::cpu {
namespace {

bool all_are(const Shape& list, int64_t x) {
  return std::all_of(list.begin(), list.end(), [&](int64_t y) { return y == x; });
}

ConvShape conv_shape(const KernelCall& call) {
  const TensorDesc &x = call.in[0], &w = call.in[1], &y = call.out[0];
  return {.batch = x.shape[0],
          .in_channels = x.shape[1],
          .out_channels = y.shape[1],
          .groups = call.attrs.integer("groups"),
          .in = Shape(x.shape.begin() + 2, x.shape.end()),
          .out = Shape(y.shape.begin() + 2, y.shape.end()),
          .kernel = Shape(w.shape.begin() + 2, w.shape.end()),
          .stride = call.attrs.ints("stride"),
          .padding = call.attrs.ints("padding"),
          .padding_end = call.attrs.ints("padding_end"),
          .dilation = call.attrs.ints("dilation"),
          .transposed = call.attrs.flag("transposed")};
}

constexpr int64_t kTile = 32;  // two 32 x 32 float tiles fit the first-level cache

// out[c][r] = in[r][c]
void transpose(const float* in, float* out, int64_t rows, int64_t columns, int64_t row_begin,
               int64_t row_end) {
  for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
    const int64_t c1 = std::min(c0 + kTile, columns);
    for (int64_t r0 = row_begin; r0 < row_end; r0 += kTile) {
      const int64_t r1 = std::min(r0 + kTile, row_end);
      for (int64_t c = c0; c < c1; ++c)
        for (int64_t r = r0; r < r1; ++r) out[c * rows + r] = in[r * columns + c];
    }
  }
}

}  // namespace

bool ConvShape::is_pointwise() const {
  return groups == 1 && !transposed && all_are(kernel, 1) && all_are(stride, 1) && all_are(padding, 0) &&
         all_are(padding_end, 0);
}

void to_row_major(Pool& pool, const float* in, float* out, int64_t batch, int64_t channels, int64_t points) {
  const int64_t blocks = (points + 511) / 512;
  pool.for_each(static_cast<size_t>(batch * blocks), [&](size_t i) {
    const int64_t image = static_cast<int64_t>(i) / blocks, block = static_cast<int64_t>(i) % blocks;
    transpose(in + image * channels * points, out + image * channels * points, points, channels, block * 512,
              std::min(points, (block + 1) * 512));
  });
}

// The few channels of an image or a sound, next to each other.
template <int64_t Channels>
void interleave(const float* in, float* out, int64_t points, int64_t begin, int64_t end) {
  for (int64_t p = begin; p < end; ++p)
    for (int64_t c = 0; c < Channels; ++c) out[p * Channels + c] = in[c * points + p];
}

void to_channels_last(Pool& pool, const float* in, float* out, int64_t batch, int64_t channels,
                      int64_t points) {
  const int64_t size = channels <= 4 ? 8192 : 512, blocks = (points + size - 1) / size;
  pool.for_each(static_cast<size_t>(batch * blocks), [&](size_t i) {
    const int64_t image = static_cast<int64_t>(i) / blocks, begin = static_cast<int64_t>(i) % blocks * size;
    const int64_t end = std::min(points, begin + size);
    const float* from = in + image * channels * points;
    float* to = out + image * channels * points;
    switch (channels) {
      case 1:
        return interleave<1>(from, to, points, begin, end);
      case 2:
        return interleave<2>(from, to, points, begin, end);
      case 3:
        return interleave<3>(from, to, points, begin, end);
      case 4:
        return interleave<4>(from, to, points, begin, end);
      default:
        break;
    }
    for (int64_t p0 = begin; p0 < end; p0 += kTile) {
      const int64_t p1 = std::min(p0 + kTile, end);
      for (int64_t c0 = 0; c0 < channels; c0 += kTile) {
        const int64_t c1 = std::min(c0 + kTile, channels);
        for (int64_t p = p0; p < p1; ++p)
          for (int64_t c = c0; c < c1; ++c) to[p * channels + c] = from[c * points + p];
      }
    }
  });
}

KernelResult convolution(const KernelCall& call) {
  const ConvShape shape = conv_shape(call);
  if (call.out[0].count() == 0) return make_kernel([](const Buffers&) { return ok_status(); });
  const TensorDesc &x = call.in[0], &w = call.in[1];
  if (x.dtype != DType::f32 || w.count() == 0) return make_plain_conv(call, shape);

  ConvCall conv;
  conv.shape = shape;
  conv.bias = call.input(2).present();
  conv.residual = call.input(3).present();
  conv.norm = call.input(4).present();
  conv.row_major_in = !is_channels_last(x);
  conv.row_major_out = !is_channels_last(call.out[0]);
  conv.row_major_residual = conv.residual && !is_channels_last(call.in[3]);
  conv.weights = static_cast<const float*>(w.constant);
  conv.allocator = &call.allocator;
  SF_ASSIGN(conv.activation, activation_f32(call.attrs));
  if (shape.is_pointwise() && !conv.residual && !conv.norm &&
      shape.batch * shape.in_points() <= kSkinnyRows && !conv.row_major_in && !conv.row_major_out) {
    return make_skinny_linear({.rows = shape.batch * shape.in_points(),
                               .inner = shape.in_channels,
                               .columns = shape.out_channels,
                               .bias = conv.bias,
                               .activation = conv.activation});
  }
#ifdef SIXFOLD_ONEDNN
  auto fast = make_blocked_conv(conv);
#else
  auto fast = make_direct_conv(conv);
#endif
  if (fast.ok() || fast.error().code() != Code::Unsupported) return fast;
  return make_plain_conv(call, shape);
}

}  // namespace sixfold::cpu
