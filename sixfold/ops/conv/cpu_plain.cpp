// Convolution from its definition: every dtype, layout and corner that the fast code leaves.
#include <type_traits>

#include "sixfold/ops/conv/conv.h"

namespace sixfold::cpu {
namespace {

// Spatial axes brought to three by leading ones of extent 1.
struct Axes {
  int64_t in[3], out[3], kernel[3], stride[3], padding[3], dilation[3], in_stride[3], out_stride[3],
      residual_stride[3];
};

struct Plain {
  ConvShape shape;
  Axes axes;
  Shape in_strides, out_strides, residual_strides;
  bool bias, residual, norm;
  Op activation;
  UnaryParams params;
};

// Integers wrap around: sums are unsigned.
template <typename T>
using Sum = typename std::conditional_t<
    std::is_integral_v<T>, std::make_unsigned<T>,
    std::type_identity<std::conditional_t<std::is_same_v<T, float>, double, T>>>::type;

// What is done to every sum of one channel.
template <typename T>
struct Affine {
  T bias, scale, shift;
};

template <typename T>
void one_channel(const Plain& p, const T* x, const T* w, Affine<T> affine, const T* residual, T* y,
                 int64_t image, int64_t o) {
  const ConvShape& s = p.shape;
  const Axes& a = p.axes;
  const int64_t group_out = s.out_channels / s.groups, group_in = s.in_channels / s.groups, g = o / group_out;
  const int64_t taps = numel(s.kernel);
  // Weights are [O, C/G, taps], transposed [C, O/G, taps].
  const int64_t w_step = s.transposed ? group_out * taps : taps;
  const T* w_first =
      s.transposed ? w + (g * group_in * group_out + o % group_out) * taps : w + o * group_in * taps;
  const T* x_first = x + image * p.in_strides[0] + g * group_in * p.in_strides[1];
  T* y_first = y + image * p.out_strides[0] + o * p.out_strides[1];
  const T* r_first =
      residual ? residual + image * p.residual_strides[0] + o * p.residual_strides[1] : nullptr;

  // The input position that output position q reads with tap k, or -1.
  const auto source = [&](int d, int64_t q, int64_t k) -> int64_t {
    if (s.transposed) {
      const int64_t i = q + a.padding[d] - k * a.dilation[d];
      return i < 0 || i % a.stride[d] != 0 || i / a.stride[d] >= a.in[d] ? -1 : i / a.stride[d];
    }
    const int64_t i = q * a.stride[d] - a.padding[d] + k * a.dilation[d];
    return i < 0 || i >= a.in[d] ? -1 : i;
  };
  for (int64_t q0 = 0; q0 < a.out[0]; ++q0) {
    for (int64_t q1 = 0; q1 < a.out[1]; ++q1) {
      for (int64_t q2 = 0; q2 < a.out[2]; ++q2) {
        Sum<T> sum = static_cast<Sum<T>>(affine.bias);
        for (int64_t k0 = 0; k0 < a.kernel[0]; ++k0) {
          const int64_t i0 = source(0, q0, k0);
          if (i0 < 0) continue;
          for (int64_t k1 = 0; k1 < a.kernel[1]; ++k1) {
            const int64_t i1 = source(1, q1, k1);
            if (i1 < 0) continue;
            for (int64_t k2 = 0; k2 < a.kernel[2]; ++k2) {
              const int64_t i2 = source(2, q2, k2);
              if (i2 < 0) continue;
              const T* xs = x_first + i0 * a.in_stride[0] + i1 * a.in_stride[1] + i2 * a.in_stride[2];
              const T* ws = w_first + (k0 * a.kernel[1] + k1) * a.kernel[2] + k2;
              for (int64_t c = 0; c < group_in; ++c) {
                sum += static_cast<Sum<T>>(xs[c * p.in_strides[1]]) * static_cast<Sum<T>>(ws[c * w_step]);
              }
            }
          }
        }
        sum = sum * static_cast<Sum<T>>(affine.scale) + static_cast<Sum<T>>(affine.shift);
        if (r_first) {
          sum += static_cast<Sum<T>>(
              r_first[q0 * a.residual_stride[0] + q1 * a.residual_stride[1] + q2 * a.residual_stride[2]]);
        }
        T value = static_cast<T>(sum);
        if constexpr (std::is_floating_point_v<T>) {
          if (p.activation != Op::call) value = apply_unary(p.activation, value, p.params);
        }
        y_first[q0 * a.out_stride[0] + q1 * a.out_stride[1] + q2 * a.out_stride[2]] = value;
      }
    }
  }
}

template <typename T>
KernelResult make_typed(Plain plain) {
  return make_kernel([p = std::move(plain)](const Buffers& b) {
    const T* x = b.input<T>(0);
    const T* w = b.input<T>(1);
    const T* bias = p.bias ? b.input<T>(2) : nullptr;
    const T* residual = p.residual ? b.input<T>(3) : nullptr;
    const T* scale = p.norm ? b.input<T>(4) : nullptr;
    const T* shift = p.norm ? b.input<T>(5) : nullptr;
    T* y = b.output<T>();
    b.pool.for_each(static_cast<size_t>(p.shape.batch * p.shape.out_channels), [&](size_t i) {
      const int64_t image = static_cast<int64_t>(i) / p.shape.out_channels,
                    o = static_cast<int64_t>(i) % p.shape.out_channels;
      one_channel<T>(p, x, w, {bias ? bias[o] : T{}, scale ? scale[o] : T{1}, shift ? shift[o] : T{}},
                     residual, y, image, o);
    });
    return ok_status();
  });
}

}  // namespace

KernelResult make_plain_conv(const KernelCall& call, const ConvShape& shape) {
  Plain p{shape,
          {},
          call.in[0].strides,
          call.out[0].strides,
          {},
          call.input(2).present(),
          call.input(3).present(),
          call.input(4).present(),
          Op::call,
          {}};
  if (p.residual) p.residual_strides = call.in[3].strides;
  const size_t n = shape.in.size();
  for (size_t d = 0; d < 3; ++d) {
    const bool there = d + n >= 3;
    const size_t i = there ? d + n - 3 : 0;
    p.axes.in[d] = there ? shape.in[i] : 1;
    p.axes.out[d] = there ? shape.out[i] : 1;
    p.axes.kernel[d] = there ? shape.kernel[i] : 1;
    p.axes.stride[d] = there ? shape.stride[i] : 1;
    p.axes.padding[d] = there ? shape.padding[i] : 0;
    p.axes.dilation[d] = there ? shape.dilation[i] : 1;
    p.axes.in_stride[d] = there ? p.in_strides[i + 2] : 0;
    p.axes.out_stride[d] = there ? p.out_strides[i + 2] : 0;
    p.axes.residual_stride[d] = there && p.residual ? p.residual_strides[i + 2] : 0;
  }
  const std::string& activation = call.attrs.text("activation");
  if (activation != "none") {
    const auto op = find_op(activation);
    if (!op || !keeps(*op) || !is_float(call.in[0].dtype))
      return unsupported("activation ", activation, " on ", call.in[0].dtype);
    p.activation = *op;
    p.params = unary_params(*op, call.attrs);
  }
#define SF_TYPE(id, T)                                                  \
  case DType::id:                                                       \
    if constexpr (keeps(DType::id)) return make_typed<T>(std::move(p)); \
    break;
  switch (call.in[0].dtype) {
    SF_TYPE(f32, float)
    SF_TYPE(f64, double)
    SF_TYPE(i64, int64_t)
    SF_TYPE(i32, int32_t)
    SF_TYPE(i16, int16_t)
    SF_TYPE(i8, int8_t)
    SF_TYPE(u8, uint8_t)
    default:
      break;
  }
#undef SF_TYPE
  return unsupported("convolution of ", call.in[0].dtype);
}

}  // namespace sixfold::cpu
