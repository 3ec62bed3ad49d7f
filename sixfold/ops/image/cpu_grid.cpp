// grid_sampler: every output point names a place of the input in [-1, 1] coordinates.
//
// Points are taken in small blocks: the taps of a block (offsets and weights) are worked out once and then
// applied to every channel. Arithmetic on coordinates is in the tensor's own dtype, step by step as torch's,
// since a place that falls on a border decides which pixel is read.
#include <algorithm>
#include <array>
#include <cmath>

#include "sixfold/cpu/kernel.h"

namespace sixfold::cpu {
namespace {

enum class Mode { bilinear, nearest, bicubic };
enum class Padding { zeros, border, reflection };

struct GridPlan {
  Mode mode;
  Padding padding;
  bool align_corners;
  int64_t batch, channels;
  size_t axes;                // 2 or 3
  std::array<int64_t, 3> in;  // extents, the fastest axis first: x, y, z
  int64_t points, plane;      // per image: of the output, of the input
};

constexpr int64_t kBlock = 64;
constexpr int kMaxTaps = 16;

template <typename T>
struct Taps {
  int count;
  int64_t offset[kMaxTaps][kBlock];  // into a plane; -1: outside
  T weight[kMaxTaps][kBlock];
};

template <typename T>
T unnormalize(T x, int64_t extent, bool align_corners) {
  const T size = static_cast<T>(extent);
  return align_corners ? ((x + 1) / 2) * (size - 1) : ((x + 1) * size - 1) / 2;
}

template <typename T>
T reflect(T x, T twice_low, T twice_high) {
  if (twice_low == twice_high) return 0;
  const T low = twice_low / 2, span = (twice_high - twice_low) / 2;
  x = std::fabs(x - low);
  const T extra = std::fmod(x, span);
  return std::fmod(std::floor(x / span), T{2}) == 0 ? extra + low : span - extra + low;
}

// torch clamps NaN to the first pixel in its 2-d kernels and to the last one in its 3-d kernels.
template <typename T>
T clip(const GridPlan& plan, T x, int64_t extent) {
  const T last = static_cast<T>(extent - 1);
  if (x != x) return plan.axes == 2 ? T{0} : last;
  return std::clamp(x, T{0}, last);
}

template <typename T>
T pad(const GridPlan& plan, T x, int64_t extent) {
  if (plan.padding == Padding::zeros) return x;
  if (plan.padding == Padding::reflection) {
    const T size = static_cast<T>(extent);
    x = plan.align_corners ? reflect(x, T{0}, 2 * (size - 1)) : reflect(x, T{-1}, 2 * size - 1);
  }
  return clip(plan, x, extent);
}

// The pixel at a whole coordinate, or -1 outside (also for NaN and what does not fit an integer).
template <typename T>
int64_t pixel(T x, int64_t extent) {
  return x >= 0 && x < static_cast<T>(extent) ? static_cast<int64_t>(x) : -1;
}

template <typename T>
void cubic_weights(T t, T* w) {
  constexpr T a = static_cast<T>(-0.75);
  const auto near = [&](T x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  const auto far = [&](T x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  w[0] = far(t + 1), w[1] = near(t), w[2] = near(1 - t), w[3] = far(2 - t);
}

// Taps of one axis: positions (-1: outside) and weights; returns how many.
template <typename T>
int axis_taps(const GridPlan& plan, T coordinate, int64_t extent, int64_t* position, T* weight) {
  const T x = unnormalize(coordinate, extent, plan.align_corners);
  if (plan.mode == Mode::nearest) {
    position[0] = pixel(std::nearbyint(pad(plan, x, extent)), extent);
    weight[0] = 1;
    return 1;
  }
  if (plan.mode == Mode::bicubic) {
    const T first = std::floor(x);
    cubic_weights(x - first, weight);
    for (int i = 0; i < 4; ++i) position[i] = pixel(pad(plan, first + static_cast<T>(i - 1), extent), extent);
    return 4;
  }
  const T at = pad(plan, x, extent), first = std::floor(at);
  position[0] = pixel(first, extent);
  position[1] = pixel(first + 1, extent);
  weight[0] = first + 1 - at;
  weight[1] = at - first;
  return 2;
}

template <typename T>
void compute_taps(const GridPlan& plan, const T* grid, int64_t points, Taps<T>& taps) {
  for (int64_t p = 0; p < points; ++p, grid += plan.axes) {
    int64_t position[3][4] = {};
    T weight[3][4] = {{1}, {1}, {1}};
    int count[3] = {1, 1, 1};
    for (size_t i = 0; i < plan.axes; ++i)
      count[i] = axis_taps(plan, grid[i], plan.in[i], position[i], weight[i]);
    int k = 0;
    for (int z = 0; z < count[2]; ++z)
      for (int y = 0; y < count[1]; ++y)
        for (int x = 0; x < count[0]; ++x, ++k) {
          const bool outside = position[0][x] < 0 || position[1][y] < 0 || position[2][z] < 0;
          taps.offset[k][p] =
              outside ? -1 : (position[2][z] * plan.in[1] + position[1][y]) * plan.in[0] + position[0][x];
          const T w = weight[0][x] * weight[1][y] * weight[2][z];
          // In 2-d torch multiplies a zero by the weight, so that a NaN coordinate shows; in 3-d it skips the
          // tap.
          taps.weight[k][p] = outside && plan.axes == 3 ? T{0} : w;
        }
    taps.count = k;
  }
}

template <typename T>
void sample(const GridPlan& plan, const T* in, const T* grid, T* out, int64_t block) {
  const int64_t blocks = (plan.points + kBlock - 1) / kBlock;
  const int64_t n = block / blocks, first = block % blocks * kBlock;
  const int64_t points = std::min(kBlock, plan.points - first);
  Taps<T> taps;
  taps.count = 0;
  compute_taps(plan, grid + (n * plan.points + first) * static_cast<int64_t>(plan.axes), points, taps);
  for (int64_t c = 0; c < plan.channels; ++c) {
    const T* plane = in + (n * plan.channels + c) * plan.plane;
    T* to = out + (n * plan.channels + c) * plan.points + first;
    if (plan.mode == Mode::nearest) {
      for (int64_t p = 0; p < points; ++p) to[p] = taps.offset[0][p] < 0 ? T{0} : plane[taps.offset[0][p]];
      continue;
    }
    T sum[kBlock] = {};
    for (int k = 0; k < taps.count; ++k)
      for (int64_t p = 0; p < points; ++p) {
        const int64_t at = taps.offset[k][p];
        sum[p] += taps.weight[k][p] * (at < 0 ? T{0} : plane[at]);
      }
    std::copy(sum, sum + points, to);
  }
}

}  // namespace

KernelResult grid_sampler(const KernelCall& call) {
  const TensorDesc &x = call.in[0], &out = call.out[0];
  if (x.dtype != DType::f32 && x.dtype != DType::f64) return unsupported(call.op, " of ", x.dtype);
  const std::string &mode = call.attrs.text("mode"), &padding = call.attrs.text("padding_mode");
  GridPlan plan{};
  plan.mode = mode == "nearest" ? Mode::nearest : mode == "bicubic" ? Mode::bicubic : Mode::bilinear;
  plan.padding = padding == "border"       ? Padding::border
                 : padding == "reflection" ? Padding::reflection
                                           : Padding::zeros;
  plan.align_corners = call.attrs.flag("align_corners");
  plan.batch = x.shape[0];
  plan.channels = x.shape[1];
  plan.axes = x.rank() - 2;
  plan.in = {1, 1, 1};
  plan.points = plan.plane = 1;
  for (size_t i = 0; i < plan.axes; ++i) {
    plan.in[i] = x.shape[x.rank() - 1 - i];
    plan.plane *= x.shape[i + 2];
    plan.points *= out.shape[i + 2];
  }
  if (out.count() == 0) return make_kernel([](const Buffers&) { return ok_status(); });
  const int64_t blocks = plan.batch * ((plan.points + kBlock - 1) / kBlock);
  return make_kernel([plan, blocks, dtype = x.dtype](const Buffers& buffers) {
    const auto run = [&]<typename T>(T) {
      buffers.pool.for_ranges(blocks, 1 + 256 / plan.channels, [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b)
          sample(plan, buffers.input<T>(0), buffers.input<T>(1), buffers.output<T>(), b);
      });
    };
    if (dtype == DType::f32)
      run(float{});
    else
      run(double{});
    return ok_status();
  });
}

}  // namespace sixfold::cpu
