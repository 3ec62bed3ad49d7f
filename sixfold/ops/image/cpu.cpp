// upsample: every mode is separable, so an axis becomes a table of taps when the kernel is made.
//
// Where an output pixel falls between input pixels is computed in float for every dtype but f64, in torch's
// own order of operations: near a border between two pixels the rounding decides which one nearest takes.
#include <cmath>
#include <cstring>
#include <numbers>

#include "sixfold/cpu/kernel.h"
#include "sixfold/ops/image/resize.h"

namespace sixfold::cpu {
namespace image {
namespace {

template <typename T>
T source_step(const AxisSpec& s) {
  if (s.align_corners) return s.out > 1 ? static_cast<T>(s.in - 1) / static_cast<T>(s.out - 1) : T{0};
  return s.scale > 0 ? static_cast<T>(1.0 / s.scale) : static_cast<T>(s.in) / static_cast<T>(s.out);
}

template <typename T>
T source_index(const AxisSpec& s, T step, int64_t o, bool clamp) {
  if (s.align_corners) return step * static_cast<T>(o);
  const T at = step * (static_cast<T>(o) + static_cast<T>(0.5)) - static_cast<T>(0.5);
  return clamp && at < 0 ? T{0} : at;
}

// The pixel at or before `at`, and how far `at` lies towards the next one.
template <typename T>
int64_t split(T at, int64_t in, T* fraction) {
  const int64_t i = std::min(static_cast<int64_t>(std::floor(at)), in - 1);
  *fraction = std::clamp(at - static_cast<T>(i), T{0}, T{1});
  return i;
}

template <typename T>
T cubic_near(T x, T a) {
  return ((a + 2) * x - (a + 3)) * x * x + 1;
}
template <typename T>
T cubic_far(T x, T a) {
  return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

// The antialiasing filters, all of width 1 per input pixel when enlarging. Cubic has PIL's coefficient here.
template <typename T>
T filter(const std::string& mode, T x) {
  x = std::fabs(x);
  if (mode == "linear") return x < 1 ? 1 - x : T{0};
  if (mode == "cubic") return x < 1 ? cubic_near(x, T{-0.5}) : x < 2 ? cubic_far(x, T{-0.5}) : T{0};
  if (x >= 3) return 0;
  const T px = x * std::numbers::pi_v<T>;
  return x == 0 ? T{1} : std::sin(px) / px * (std::sin(px / 3) / (px / 3));  // lanczos
}

class TapTable {
 public:
  TapTable(const AxisSpec& s, int64_t taps) {
    axis_.in = s.in;
    axis_.out = s.out;
    axis_.taps = taps;
    axis_.index.assign(static_cast<size_t>(taps * s.out), 0);
    axis_.weight.assign(static_cast<size_t>(taps * s.out), 0.0);
    axis_.count.assign(static_cast<size_t>(s.out), static_cast<int32_t>(taps));
  }
  void set(int64_t o, int64_t tap, int64_t index, double weight) {
    const auto at = static_cast<size_t>(tap * axis_.out + o);
    axis_.index[at] = static_cast<int32_t>(std::clamp<int64_t>(index, 0, axis_.in - 1));
    axis_.weight[at] = weight;
  }
  void set_count(int64_t o, int64_t count) {
    axis_.count[static_cast<size_t>(o)] = static_cast<int32_t>(count);
  }
  Axis take() && {
    axis_.weight_f32.assign(axis_.weight.begin(), axis_.weight.end());
    return std::move(axis_);
  }

 private:
  Axis axis_;
};

template <typename T>
Axis antialias_axis(const AxisSpec& s) {
  const T step = source_step<T>(s);
  const T width = s.mode == "linear" ? 2 : s.mode == "cubic" ? 4 : 6;
  const T support = step >= 1 ? width * static_cast<T>(0.5) * step : width * static_cast<T>(0.5);
  const T inverse = step >= 1 ? 1 / step : T{1};
  const int64_t most = support < static_cast<T>(s.in)
                           ? std::min(static_cast<int64_t>(std::ceil(support)) * 2 + 1, s.in)
                           : s.in;
  TapTable table(s, most);
  std::vector<T> weights(static_cast<size_t>(most));
  for (int64_t o = 0; o < s.out; ++o) {
    const T center = step * (static_cast<T>(o) + static_cast<T>(0.5));
    const int64_t first = std::max<int64_t>(static_cast<int64_t>(center - support + static_cast<T>(0.5)), 0);
    const int64_t last = std::min(static_cast<int64_t>(center + support + static_cast<T>(0.5)), s.in);
    const int64_t count = std::clamp<int64_t>(last - first, 0, most);
    T total = 0;
    for (int64_t j = 0; j < count; ++j) {
      weights[static_cast<size_t>(j)] =
          filter<T>(s.mode, (static_cast<T>(j + first) - center + static_cast<T>(0.5)) * inverse);
      total += weights[static_cast<size_t>(j)];
    }
    for (int64_t j = 0; j < count; ++j) {
      const T w = weights[static_cast<size_t>(j)];
      table.set(o, j, first + j, total != 0 ? w / total : w);
    }
    table.set_count(o, count);
  }
  return std::move(table).take();
}

template <typename T>
Axis make_axis(const AxisSpec& s) {
  if (s.antialias) return antialias_axis<T>(s);
  const T step = source_step<T>(s);
  const bool linear = s.mode == "linear", cubic = s.mode == "cubic";
  TapTable table(s, linear ? 2 : cubic ? 4 : 1);
  for (int64_t o = 0; o < s.out; ++o) {
    T t = 0;
    if (s.mode == "nearest") {
      table.set(o, 0, static_cast<int64_t>(std::floor(step * static_cast<T>(o))), 1);
    } else if (s.mode == "nearest-exact") {
      table.set(o, 0, static_cast<int64_t>(std::floor(source_index(s, step, o, true) + static_cast<T>(0.5))),
                1);
    } else if (linear) {
      const int64_t i = s.in == s.out ? o : split(source_index(s, step, o, true), s.in, &t);
      table.set(o, 0, i, 1 - t);
      table.set(o, 1, i + 1, t);
    } else {
      const int64_t i = split(source_index(s, step, o, false), s.in, &t);
      constexpr T a = static_cast<T>(-0.75);
      const T weights[] = {cubic_far(t + 1, a), cubic_near(t, a), cubic_near(1 - t, a), cubic_far(2 - t, a)};
      for (int64_t j = 0; j < 4; ++j) table.set(o, j, i - 1 + j, weights[j]);
    }
  }
  return std::move(table).take();
}

}  // namespace

Axis resize_axis(const AxisSpec& spec, DType dtype) {
  return dtype == DType::f64 ? make_axis<double>(spec) : make_axis<float>(spec);
}

namespace {

std::array<int64_t, 5> padded_strides(const TensorDesc& t) {
  std::array<int64_t, 5> strides{t.strides[0], t.strides[1], 0, 0, 0};
  for (size_t i = 2; i < t.rank(); ++i) strides[i + 5 - t.rank()] = t.strides[i];
  return strides;
}

// Any layout, elements [begin, end) of the output in row-major order.
template <typename T>
void resize_any(const Plan& plan, const T* in, T* out, int64_t begin, int64_t end) {
  const auto& [depth, height, width] = plan.axes;
  const auto &s = plan.in_strides, &t = plan.out_strides;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t w = i % width.out, h = i / width.out % height.out,
                  d = i / width.out / height.out % depth.out;
    const int64_t plane = i / width.out / height.out / depth.out, c = plane % plan.channels,
                  n = plane / plan.channels;
    const T* from = in + n * s[0] + c * s[1];
    T& to = out[n * t[0] + c * t[1] + d * t[2] + h * t[3] + w * t[4]];
    if (plan.copy) {
      to = from[depth.index[d] * s[2] + height.index[h] * s[3] + width.index[w] * s[4]];
      continue;
    }
    if constexpr (std::is_floating_point_v<T>) {
      T sum = 0;
      for (int32_t a = 0; a < depth.count[d]; ++a)
        for (int32_t b = 0; b < height.count[h]; ++b) {
          T line = 0;
          for (int32_t e = 0; e < width.count[w]; ++e)
            line += static_cast<T>(width.weight[e * width.out + w]) *
                    from[depth.index[a * depth.out + d] * s[2] + height.index[b * height.out + h] * s[3] +
                         width.index[e * width.out + w] * s[4]];
          sum += static_cast<T>(depth.weight[a * depth.out + d] * height.weight[b * height.out + h]) * line;
        }
      to = sum;
    }
  }
}

// Nearest in channels-last: whole pixels move. Rows of batch * out[0] * out[1].
void copy_pixels(const Plan& plan, const std::byte* in, std::byte* out, int64_t begin, int64_t end) {
  const auto& [depth, height, width] = plan.axes;
  const auto pixel = plan.channels * static_cast<int64_t>(size_of(plan.dtype));
  for (int64_t row = begin; row < end; ++row) {
    const int64_t h = row % height.out, d = row / height.out % depth.out, n = row / height.out / depth.out;
    const std::byte* line =
        in + ((n * depth.in + depth.index[d]) * height.in + height.index[h]) * width.in * pixel;
    std::byte* to = out + row * width.out * pixel;
    for (int64_t w = 0; w < width.out; ++w) std::memcpy(to + w * pixel, line + width.index[w] * pixel, pixel);
  }
}

// Nearest in row-major images. Output rows that come from the same input row are copies of each other.
template <typename T>
void copy_rows(const Plan& plan, const T* in, T* out, int64_t begin, int64_t end) {
  const auto& [depth, height, width] = plan.axes;
  const int32_t* index = width.index.data();
  for (int64_t row = begin; row < end; ++row) {
    const int64_t h = row % height.out, d = row / height.out % depth.out,
                  plane = row / height.out / depth.out;
    T* to = out + row * width.out;
    if (row > begin && h > 0 && height.index[h] == height.index[h - 1]) {
      std::memcpy(to, to - width.out, static_cast<size_t>(width.out) * sizeof(T));
      continue;
    }
    const T* line = in + ((plane * depth.in + depth.index[d]) * height.in + height.index[h]) * width.in;
    for (int64_t w = 0; w < width.out; ++w) to[w] = line[index[w]];
  }
}

constexpr int64_t kTaskWork = 16384;
constexpr int64_t kMaxTasks = 64;  // each has a line of scratch

KernelResult make_resize(Plan plan, int64_t count, bool plain) {
  const bool fast = plan.dtype == DType::f32 && (plain || plan.channels_last);
  const int64_t spatial_rows = plan.axes[0].out * plan.axes[1].out;
  const int64_t rows = plan.batch * spatial_rows * (plan.channels_last ? 1 : plan.channels);
  const int64_t row_work = plan.axes[2].out * (plan.channels_last ? plan.channels : 1) * plan.axes[0].taps *
                           plan.axes[1].taps * plan.axes[2].taps;
  const bool with_lines = fast && !plan.channels_last && !plan.copy;
  int64_t grain = std::max<int64_t>(kTaskWork / std::max<int64_t>(row_work, 1), 1);
  if (with_lines) grain = std::max(grain, (rows + kMaxTasks - 1) / kMaxTasks);
  const int64_t line = (plan.axes[2].in + 15) / 16 * 16;
  const KernelTraits traits{.scratch_bytes =
                                with_lines ? static_cast<size_t>(kMaxTasks * line) * sizeof(float) : 0};
  return make_kernel(
      [plan = std::move(plan), count, fast, plain, rows, grain, line](const Buffers& buffers) {
        if (plan.copy && plan.channels_last) {
          buffers.pool.for_ranges(rows, grain, [&](int64_t begin, int64_t end) {
            copy_pixels(plan, buffers.input<std::byte>(0), buffers.output<std::byte>(), begin, end);
          });
        } else if (fast && !plan.copy) {
          const float* in = buffers.input<float>(0);
          float* out = buffers.output<float>();
          auto* lines = reinterpret_cast<float*>(buffers.scratch);
          buffers.pool.for_ranges(rows, grain, [&](int64_t begin, int64_t end) {
            if (plan.channels_last)
              resize_channels_last_f32(plan, in, out, begin, end);
            else
              resize_planes_f32(plan, in, out, lines + begin / grain * line, begin, end);
          });
        } else {
          with_type(plan.dtype, [&](auto zero) {
            using T = decltype(zero);
            if (plan.copy && plain) {
              buffers.pool.for_ranges(rows, grain, [&](int64_t begin, int64_t end) {
                copy_rows<T>(plan, buffers.input<T>(0), buffers.output<T>(), begin, end);
              });
              return;
            }
            buffers.pool.for_ranges(count, kTaskWork, [&](int64_t begin, int64_t end) {
              resize_any<T>(plan, buffers.input<T>(0), buffers.output<T>(), begin, end);
            });
          });
        }
        return ok_status();
      },
      traits);
}

}  // namespace
}  // namespace image

KernelResult upsample(const KernelCall& call) {
  const TensorDesc &x = call.in[0], &y = call.out[0];
  const std::string& mode = call.attrs.text("mode");
  const bool copy = mode == "nearest" || mode == "nearest-exact";
  if (!copy && x.dtype != DType::f32 && x.dtype != DType::f64)
    return unsupported(call.op, " ", mode, " of ", x.dtype);
  if (y.count() == 0) return make_kernel([](const Buffers&) { return ok_status(); });
  for (size_t i = 2; i < x.rank(); ++i)
    if (x.shape[i] > INT32_MAX) return unsupported(call.op, " of an axis of ", x.shape[i]);

  image::Plan plan;
  plan.dtype = x.dtype;
  plan.copy = copy;
  plan.batch = x.shape[0];
  plan.channels = x.shape[1];
  const std::vector<double> scales = call.attrs.reals("scales");
  for (image::Axis& axis : plan.axes) axis = image::resize_axis({1, 1, 0, false, false, "nearest"}, x.dtype);
  for (size_t i = 2, rank = x.rank(); i < rank; ++i)
    plan.axes[i + 3 - rank] =
        image::resize_axis({x.shape[i], y.shape[i], scales[i - 2], !copy && call.attrs.flag("align_corners"),
                            call.attrs.flag("antialias"), mode},
                           x.dtype);
  plan.in_strides = image::padded_strides(x);
  plan.out_strides = image::padded_strides(y);
  const bool plain = is_row_major(x) && is_row_major(y);
  plan.channels_last = is_channels_last(x) && is_channels_last(y) && !plain;
  return image::make_resize(std::move(plan), y.count(), plain);
}

}  // namespace sixfold::cpu
