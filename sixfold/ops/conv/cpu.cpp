// convolution: reads the call, chooses the kernel.
#include <algorithm>

#include "sixfold/cpu/copy.h"
#ifdef SIXFOLD_ONEDNN
#include "sixfold/cpu/onednn.h"
#endif
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

}  // namespace

bool ConvShape::reads_single_points() const {
  return groups == 1 && !transposed && all_are(kernel, 1) && all_are(padding, 0) && all_are(padding_end, 0);
}

bool ConvShape::is_pointwise() const { return reads_single_points() && all_are(stride, 1); }

bool has_bf16_products() {
#ifdef SIXFOLD_ONEDNN
  return onednn::multiplies_bf16();
#else
  return false;
#endif
}

static int64_t points_at_once(int64_t channels) { return channels <= 4 ? 8192 : 512; }

void to_row_major(Pool& pool, const float* in, float* out, int64_t batch, int64_t channels, int64_t points) {
  const int64_t size = points_at_once(channels), blocks = (points + size - 1) / size;
  pool.for_each(static_cast<size_t>(batch * blocks), [&](size_t i) {
    const int64_t image = static_cast<int64_t>(i) / blocks, begin = static_cast<int64_t>(i) % blocks * size;
    const int64_t at = image * channels * points;
    transpose(in + at + begin * channels, channels, std::min(size, points - begin), channels,
              out + at + begin, points);
  });
}

void to_channels_last(Pool& pool, const float* in, float* out, int64_t batch, int64_t channels,
                      int64_t points) {
  const int64_t size = points_at_once(channels), blocks = (points + size - 1) / size;
  pool.for_each(static_cast<size_t>(batch * blocks), [&](size_t i) {
    const int64_t image = static_cast<int64_t>(i) / blocks, begin = static_cast<int64_t>(i) % blocks * size;
    const int64_t at = image * channels * points;
    transpose(in + at + begin, points, channels, std::min(size, points - begin), out + at + begin * channels,
              channels);
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
  conv.bf16 = call.attrs.has(kFactors);
  conv.row_major_in = !is_channels_last(x);
  conv.row_major_out = !is_channels_last(call.out[0]);
  conv.row_major_residual = conv.residual && !is_channels_last(call.in[3]);
  conv.weights = static_cast<const float*>(w.constant);
  conv.allocator = &call.allocator;
  conv.shared = call.shared;
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
