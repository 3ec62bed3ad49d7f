#include <limits>

#include "sixfold/base/for_size.h"
#include "sixfold/cpu/kernel.h"
#include "sixfold/ops/pool/windows.h"
#include "sixfold/ops/reduce/walk.h"

namespace sixfold::cpu {
namespace pool {
namespace {

// Windows of max_pool and avg_pool, as torch counts them.
Axis strided_axis(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                  bool count_padding) {
  Axis axis{.in = in,
            .out = out,
            .step = dilation,
            .windows = {},
            .taps = kernel,
            .stride = stride,
            .padding = padding};
  for (int64_t o = 0; o < out; ++o) {
    const int64_t start = o * stride - padding;
    const int64_t skip = start < 0 ? (-start + dilation - 1) / dilation : 0;
    const int64_t begin = start + skip * dilation;
    const int64_t fit = begin < in ? (in - begin + dilation - 1) / dilation : 0;
    Window w{.begin = begin,
             .count = std::max<int64_t>(std::min(kernel - skip, fit), 0),
             .size = 0,
             .first = begin};
    w.size = count_padding ? std::min(start + kernel, in + padding) - start : w.count;
    axis.windows.push_back(w);
  }
  return axis;
}

Axis adaptive_axis(int64_t in, int64_t out) {
  Axis axis{.in = in, .out = out, .step = 1, .windows = {}};
  for (int64_t o = 0; o < out; ++o) {
    const int64_t begin = o * in / out;
    const int64_t end = ((o + 1) * in + out - 1) / out;
    axis.windows.push_back({.begin = begin, .count = end - begin, .size = end - begin, .first = begin});
  }
  return axis;
}

std::array<int64_t, 5> padded_strides(const TensorDesc& t) {
  std::array<int64_t, 5> strides{t.strides[0], t.strides[1], 0, 0, 0};
  for (size_t i = 2; i < t.rank(); ++i) strides[i + 5 - t.rank()] = t.strides[i];
  return strides;
}

Plan make_plan(const KernelCall& call, bool max) {
  const TensorDesc& x = call.in[0];
  const TensorDesc& y = call.out[0];
  Plan plan;
  plan.dtype = x.dtype;
  plan.max = max;
  plan.batch = x.shape[0];
  plan.channels = x.shape[1];
  for (Axis& axis : plan.axes) axis = adaptive_axis(1, 1);
  plan.in_strides = padded_strides(x);
  plan.out_strides = padded_strides(y);
  if (call.out.size() > 1) plan.index_strides = padded_strides(call.out[1]);
  plan.channels_last = is_channels_last(x) && is_channels_last(y) && !(is_row_major(x) && is_row_major(y));
  return plan;
}

template <typename T>
constexpr bool kHalf = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

template <typename T>
T lowest() {
  if constexpr (kHalf<T>)
    return T(-std::numeric_limits<float>::infinity());
  else
    return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                : std::numeric_limits<T>::lowest();
}

// Any dtype, any strides; writes what it has room for: a maximum may be wanted without indices, or they
// without it. Elements [begin, end) of the output in row-major order.
template <typename T>
void pool_any(const Plan& plan, const T* in, T* out, int64_t* indices, int64_t begin, int64_t end) {
  // Where this is the only way, sums of whole images keep their digits in double.
  using Sum = std::conditional_t<kForSize && std::is_same_v<T, float>, double, T>;
  const auto& [depth, height, width] = plan.axes;
  const auto& s = plan.in_strides;
  for (int64_t i = begin; i < end; ++i) {
    int64_t rest = i;
    const int64_t ow = rest % width.out;
    rest /= width.out;
    const int64_t oh = rest % height.out;
    rest /= height.out;
    const int64_t od = rest % depth.out;
    rest /= depth.out;
    const int64_t c = rest % plan.channels, n = rest / plan.channels;
    const Window &wd = depth.windows[od], &wh = height.windows[oh], &ww = width.windows[ow];
    const T* plane = in + n * s[0] + c * s[1];
    const auto at = [&](const std::array<int64_t, 5>& t) {
      return n * t[0] + c * t[1] + od * t[2] + oh * t[3] + ow * t[4];
    };
    T best = lowest<T>();
    Sum sum{};
    int64_t index = (wd.first * height.in + wh.first) * width.in + ww.first;
    for (int64_t a = 0, d = wd.begin; a < wd.count; ++a, d += depth.step)
      for (int64_t b = 0, h = wh.begin; b < wh.count; ++b, h += height.step)
        for (int64_t e = 0, w = ww.begin; e < ww.count; ++e, w += width.step) {
          const T v = plane[d * s[2] + h * s[3] + w * s[4]];
          if (!plan.takes_max()) {
            sum = static_cast<Sum>(sum + v);
          } else if (v > best || v != v) {  // NaN wins, the last one
            best = v;
            index = (d * height.in + h) * width.in + w;
          }
        }
    if (plan.takes_max()) {
      if (out) out[at(plan.out_strides)] = best;
      if (indices) indices[at(plan.index_strides)] = index;
    } else {
      const bool empty = wd.count == 0 || wh.count == 0 || ww.count == 0;
      const auto over = [](Sum x, int64_t by) { return static_cast<Sum>(x / static_cast<Sum>(by)); };
      if (empty)
        sum = Sum{};
      else if (kHalf<T>)
        sum = over(over(over(sum, wd.size), wh.size), ww.size);
      else
        sum = over(sum, plan.divisor ? plan.divisor : wd.size * wh.size * ww.size);
      out[at(plan.out_strides)] = static_cast<T>(sum);
    }
  }
}

// About this many input elements make a task worth handing to another thread.
constexpr int64_t kTaskWork = 32768;

void run_f32(const Plan& plan, int64_t work, const Buffers& buffers) {
  const int64_t rows = plan.axes[0].out * plan.axes[1].out;  // per image or plane
  const int64_t row_work = std::max<int64_t>(work * plan.axes[2].out, 1);
  const float* in = buffers.input<float>(0);
  float* out = buffers.output<float>();
  if (!plan.channels_last) {
    buffers.pool.for_ranges(plan.batch * plan.channels * rows, kTaskWork / row_work,
                            [&](int64_t begin, int64_t end) { planes_f32(plan, in, out, begin, end); });
    return;
  }
  // Few rows (global pooling) are split over channels as well.
  const int64_t total = plan.batch * rows;
  const int64_t block = total < 16 && row_work * plan.channels > kTaskWork ? 64 : plan.channels;
  const int64_t blocks = (plan.channels + block - 1) / block;
  const int64_t grain = std::max<int64_t>(kTaskWork / (row_work * block), 1);
  const int64_t chunks = (total + grain - 1) / grain;
  buffers.pool.for_each(static_cast<size_t>(chunks * blocks), [&](size_t task) {
    const int64_t chunk = static_cast<int64_t>(task) / blocks, b = static_cast<int64_t>(task) % blocks;
    channels_last_f32(plan, in, out, chunk * grain, std::min((chunk + 1) * grain, total), b * block,
                      std::min((b + 1) * block, plan.channels));
  });
}

// An average of a whole image, which torch computes as a mean: its sums keep their digits over many elements.
// A few elements lose none.
bool is_mean(const Plan& plan) {
  if (plan.takes_max() || plan.dtype != DType::f32) return false;
  int64_t size = 1;
  for (const Axis& axis : plan.axes) {
    if (axis.out != 1 || axis.windows[0].count != axis.in) return false;
    size *= axis.in;
  }
  const auto& [depth, height, width] = plan.axes;
  const int64_t divisor = depth.windows[0].size * height.windows[0].size * width.windows[0].size;
  return size >= 64 && (plan.divisor ? plan.divisor : divisor) == size;
}

KernelResult make_mean(const KernelCall& call) {
  Shape dims;
  for (size_t i = 2; i < call.in[0].rank(); ++i) dims.push_back(static_cast<int64_t>(i));
  return reduce_f32(Op::mean, plan_walk(call.in[0], call.out[0], dims, /*keepdim=*/true), 0);
}

KernelResult make_pool(const KernelCall& call, Plan plan) {
  const DType dtype = plan.dtype;
  // torch rounds every step of one pool in half precision: adaptive_avg_pool3d. The others are right in
  // float.
  const bool rounds_steps = call.op == Op::adaptive_avg_pool && call.in[0].rank() == 5;
  if (dtype == DType::boolean || (is_half(dtype) && !rounds_steps))
    return unsupported(call.op, " of ", dtype);
  const int64_t count = call.out[0].count();
  if (count == 0) return make_kernel([](const Buffers&) { return ok_status(); });
  if constexpr (!kForSize) {
    if (is_mean(plan)) return make_mean(call);
  }
  int64_t work = 1;  // positions of the largest window
  for (const Axis& axis : plan.axes) {
    int64_t most = 1;
    for (const Window& w : axis.windows) most = std::max(most, w.count);
    work *= most;
  }
  const bool fast = !kForSize && dtype == DType::f32 &&
                    (plan.channels_last || (is_row_major(call.in[0]) && is_row_major(call.out[0])));
  const KernelTraits traits{.optional_outputs = true};
  return make_kernel(
      [plan = std::move(plan), count, work, fast](const Buffers& buffers) {
        int64_t* indices = buffers.out.size() > 1 ? buffers.output<int64_t>(1) : nullptr;
        if constexpr (!kForSize) {
          if (fast && !indices) {
            run_f32(plan, work, buffers);
            return ok_status();
          }
        }
        with_type(plan.dtype, [&](auto zero) {
          using T = decltype(zero);
          if constexpr (!std::is_same_v<T, bool>) {
            buffers.pool.for_ranges(count, kTaskWork / work, [&](int64_t begin, int64_t end) {
              pool_any<T>(plan, buffers.input<T>(0), buffers.output<T>(), indices, begin, end);
            });
          }
        });
        return ok_status();
      },
      traits);
}

KernelResult make_strided(const KernelCall& call, bool max) {
  Plan plan = make_plan(call, max);
  const Shape kernel = call.attrs.ints("kernel"), stride = call.attrs.ints("stride");
  const Shape padding = call.attrs.ints("padding");
  const Shape dilation = max ? call.attrs.ints("dilation") : Shape(kernel.size(), 1);
  const bool count_padding = !max && call.attrs.flag("count_include_pad");
  if (!max) plan.divisor = call.attrs.integer("divisor");
  for (size_t i = 0, n = kernel.size(); i < n; ++i)
    plan.axes[i + 3 - n] = strided_axis(call.in[0].shape[i + 2], call.out[0].shape[i + 2], kernel[i],
                                        stride[i], padding[i], dilation[i], count_padding);
  return make_pool(call, std::move(plan));
}

KernelResult make_adaptive(const KernelCall& call, bool max) {
  Plan plan = make_plan(call, max);
  for (size_t i = 2, rank = call.in[0].rank(); i < rank; ++i)
    plan.axes[i + 3 - rank] = adaptive_axis(call.in[0].shape[i], call.out[0].shape[i]);
  return make_pool(call, std::move(plan));
}

}  // namespace
}  // namespace pool

KernelResult max_pool(const KernelCall& call) { return pool::make_strided(call, /*max=*/true); }
KernelResult avg_pool(const KernelCall& call) { return pool::make_strided(call, /*max=*/false); }
KernelResult adaptive_avg_pool(const KernelCall& call) { return pool::make_adaptive(call, /*max=*/false); }
KernelResult adaptive_max_pool(const KernelCall& call) { return pool::make_adaptive(call, /*max=*/true); }

}  // namespace sixfold::cpu
