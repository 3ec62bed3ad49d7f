// layer_norm, rms_norm, group_norm and batch_norm.
//
// Variances are taken about the mean, never as E[x^2] - E[x]^2, and the mean's own rounding is corrected for.
#include <cmath>

#include "sixfold/cpu/kernel.h"
#include "sixfold/cpu/rows.h"
#include "sixfold/cpu/split.h"

namespace sixfold::cpu {
namespace {

template <typename T>
struct Statistics {
  T mean = 0;
  T factor = 0;  // 1 / sqrt(variance + eps)
};

Statistics<float> statistics(const float* x, int64_t n, double eps) {
  const auto count = static_cast<double>(n);
  const auto shift = static_cast<float>(sum_row(x, n) / count);
  const Moments m = moments_row(x, n, shift);
  const double offset = m.first / count;  // what rounding the mean to float left
  return {static_cast<float>(shift + offset),
          static_cast<float>(1.0 / std::sqrt(m.second / count - offset * offset + eps))};
}

Statistics<double> statistics(const double* x, int64_t n, double eps) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  const double mean = sum / static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
  return {mean, 1.0 / std::sqrt(squares / static_cast<double>(n) + eps)};
}

float rms_factor(const float* x, int64_t n, double eps) {
  return static_cast<float>(1.0 / std::sqrt(sum_squares_row(x, n) / static_cast<double>(n) + eps));
}
double rms_factor(const double* x, int64_t n, double eps) {
  double squares = 0;
  for (int64_t i = 0; i < n; ++i) squares += x[i] * x[i];
  return 1.0 / std::sqrt(squares / static_cast<double>(n) + eps);
}

// The double forms of the blocks in cpu/rows.h, so that the kernels below read the same for both.
void normalize_row(const double* x, double* y, int64_t n, double mean, double factor, const double* weight,
                   const double* bias) {
  for (int64_t i = 0; i < n; ++i) {
    const double v = (x[i] - mean) * factor;
    y[i] = (weight ? v * weight[i] : v) + (bias ? bias[i] : 0.0);
  }
}
void affine_row(const double* x, double* y, int64_t n, double center, double scale, double shift) {
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - center) * scale + shift;
}
void affine_each(const double* x, double* y, int64_t n, const double* scale, const double* shift) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * scale[i] + shift[i];
}
using cpu::affine_each;
using cpu::affine_row;
using cpu::normalize_row;

// An optional operand's data; null when absent.
template <typename T>
const T* optional_input(const Buffers& b, size_t i, bool present) {
  return present ? b.input<T>(i) : nullptr;
}

template <typename T>
std::unique_ptr<Kernel> make_layer_norm(const KernelCall& call) {
  int64_t n = 1, rows = 1;
  const int64_t axes = call.attrs.integer("axes");
  const Shape& shape = call.in[0].shape;
  for (size_t i = 0; i < shape.size(); ++i)
    (static_cast<int64_t>(i) + axes >= static_cast<int64_t>(shape.size()) ? n : rows) *= shape[i];
  if (n == 0) rows = 0;
  const double eps = call.attrs.real("eps");
  const bool has_weight = call.input(1).present(), has_bias = call.input(2).present();
  const bool rms = call.op == Op::rms_norm;
  const auto run = [=](const Buffers& b) {
    const T* weight = optional_input<T>(b, 1, has_weight);
    const T* bias = optional_input<T>(b, 2, has_bias);
    b.pool.for_ranges(rows, grain_for(n), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* x = b.input<T>(0) + r * n;
        const Statistics<T> s = rms ? Statistics<T>{0, rms_factor(x, n, eps)} : statistics(x, n, eps);
        normalize_row(x, b.output<T>() + r * n, n, s.mean, s.factor, weight, bias);
      }
    });
    return ok_status();
  };
  return make_kernel(run, {.in_place = true});
}

template <typename T>
std::unique_ptr<Kernel> make_group_norm(const KernelCall& call) {
  const AxisSplit split = split_at(call.in[0].shape, 1);
  const int64_t groups = call.attrs.integer("groups");
  const double eps = call.attrs.real("eps");
  const bool has_weight = call.input(1).present(), has_bias = call.input(2).present();
  const int64_t channels = split.extent / groups;
  const int64_t n = channels * split.inner;
  const int64_t blocks = n == 0 ? 0 : split.outer * groups;
  const auto run = [=](const Buffers& b) {
    const T* weight = optional_input<T>(b, 1, has_weight);
    const T* bias = optional_input<T>(b, 2, has_bias);
    b.pool.for_ranges(blocks, grain_for(n), [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const T* x = b.input<T>(0) + block * n;
        T* y = b.output<T>() + block * n;
        const Statistics<T> s = statistics(x, n, eps);
        for (int64_t c = 0; c < channels; ++c) {
          const int64_t channel = block % groups * channels + c;
          const T scale = weight ? s.factor * weight[channel] : s.factor;
          affine_row(x + c * split.inner, y + c * split.inner, split.inner, s.mean, scale,
                     bias ? bias[channel] : T(0));
        }
      }
    });
    return ok_status();
  };
  return make_kernel(run, {.in_place = true});
}

template <typename T>
std::unique_ptr<Kernel> make_batch_norm(const KernelCall& call) {
  const AxisSplit split = split_at(call.in[0].shape, 1);
  const double eps = call.attrs.real("eps");
  const bool has_weight = call.input(1).present(), has_bias = call.input(2).present();
  // Channels innermost: channels-last, or no spatial axes.
  const bool innermost = split.inner == 1 || !is_row_major(call.in[0]);
  const int64_t channels = split.extent;
  const auto run = [=](const Buffers& b) {
    T* scale = reinterpret_cast<T*>(b.scratch);
    T* shift = scale + channels;
    const T* weight = optional_input<T>(b, 1, has_weight);
    const T* bias = optional_input<T>(b, 2, has_bias);
    for (int64_t c = 0; c < channels; ++c) {
      const double a = (weight ? weight[c] : 1.0) / std::sqrt(static_cast<double>(b.input<T>(4)[c]) + eps);
      scale[c] = static_cast<T>(a);
      shift[c] = static_cast<T>((bias ? bias[c] : 0.0) - b.input<T>(3)[c] * a);
    }
    if (innermost) {
      b.pool.for_ranges(split.outer * split.inner, grain_for(channels), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r)
          affine_each(b.input<T>(0) + r * channels, b.output<T>() + r * channels, channels, scale, shift);
      });
      return ok_status();
    }
    b.pool.for_ranges(split.outer * channels, grain_for(split.inner), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p)
        affine_row(b.input<T>(0) + p * split.inner, b.output<T>() + p * split.inner, split.inner, T(0),
                   scale[p % channels], shift[p % channels]);
    });
    return ok_status();
  };
  return make_kernel(run, {.scratch_bytes = 2 * static_cast<size_t>(channels) * sizeof(T), .in_place = true});
}

}  // namespace

KernelResult layer_norm(const KernelCall& call) {
  if (call.in[0].dtype == DType::f32) return make_layer_norm<float>(call);
  if (keeps(DType::f64) && call.in[0].dtype == DType::f64) return make_layer_norm<double>(call);
  return unsupported(call.op, " of ", call.in[0].dtype);
}

KernelResult group_norm(const KernelCall& call) {
  if (call.in[0].dtype == DType::f32) return make_group_norm<float>(call);
  if (keeps(DType::f64) && call.in[0].dtype == DType::f64) return make_group_norm<double>(call);
  return unsupported(call.op, " of ", call.in[0].dtype);
}

KernelResult batch_norm(const KernelCall& call) {
  const bool same_layout = (is_row_major(call.in[0]) && is_row_major(call.out[0])) ||
                           (is_channels_last(call.in[0]) && is_channels_last(call.out[0]));
  if (!same_layout) return unsupported("batch_norm from one memory layout to another");
  if (call.in[0].dtype == DType::f32) return make_batch_norm<float>(call);
  if (keeps(DType::f64) && call.in[0].dtype == DType::f64) return make_batch_norm<double>(call);
  return unsupported(call.op, " of ", call.in[0].dtype);
}

}  // namespace sixfold::cpu
