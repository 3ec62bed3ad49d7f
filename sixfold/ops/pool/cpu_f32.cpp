// Pooling loops for f32, once per instruction set.
#include <algorithm>
#include <limits>

#include "sixfold/ops/pool/windows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sixfold/ops/pool/cpu_f32.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sixfold::cpu::pool::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

constexpr float kLowest = -std::numeric_limits<float>::infinity();

struct Max {
  static constexpr float kInit = kLowest;
  static HWY_INLINE V combine(V acc, V x) {
    return hn::IfThenElse(hn::Or(hn::Gt(x, acc), hn::IsNaN(x)), x, acc);
  }
  static HWY_INLINE float combine(float acc, float x) { return x > acc || x != x ? x : acc; }
};
struct Sum {
  static constexpr float kInit = 0.0f;
  static HWY_INLINE V combine(V acc, V x) { return hn::Add(acc, x); }
  static HWY_INLINE float combine(float acc, float x) { return acc + x; }
};

// What a sum is divided by; a maximum by 1, which changes nothing.
HWY_INLINE float divisor(const Plan& plan, const Window& d, const Window& h, const Window& w) {
  if (plan.takes_max()) return 1.0f;
  return static_cast<float>(plan.divisor ? plan.divisor : d.size * h.size * w.size);
}

// One output pixel: `in` is the image, `c` the first channel. Four accumulators stay in registers over the
// window.
template <typename F>
HWY_INLINE void pixel(const Plan& plan, const Window& wd, const Window& wh, const Window& ww, const float* in,
                      float* out, int64_t c, int64_t c_end) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto &depth = plan.axes[0], &height = plan.axes[1], &width = plan.axes[2];
  const int64_t channels = plan.channels;
  const int64_t w_step = width.step * channels;
  const float by = divisor(plan, wd, wh, ww);
  const auto first = [&](int64_t z, int64_t y) {
    return in +
           (((wd.begin + z * depth.step) * height.in + wh.begin + y * height.step) * width.in + ww.begin) *
               channels;
  };
  for (; c + 4 * lanes <= c_end; c += 4 * lanes) {
    V a0 = hn::Set(d, F::kInit), a1 = a0, a2 = a0, a3 = a0;
    for (int64_t z = 0; z < wd.count; ++z)
      for (int64_t y = 0; y < wh.count; ++y) {
        const float* p = first(z, y) + c;
        for (int64_t x = 0; x < ww.count; ++x, p += w_step) {
          a0 = F::combine(a0, hn::LoadU(d, p));
          a1 = F::combine(a1, hn::LoadU(d, p + lanes));
          a2 = F::combine(a2, hn::LoadU(d, p + 2 * lanes));
          a3 = F::combine(a3, hn::LoadU(d, p + 3 * lanes));
        }
      }
    if (!plan.takes_max()) {
      const V v = hn::Set(d, by);
      a0 = hn::Div(a0, v), a1 = hn::Div(a1, v), a2 = hn::Div(a2, v), a3 = hn::Div(a3, v);
    }
    hn::StoreU(a0, d, out + c);
    hn::StoreU(a1, d, out + c + lanes);
    hn::StoreU(a2, d, out + c + 2 * lanes);
    hn::StoreU(a3, d, out + c + 3 * lanes);
  }
  for (; c + lanes <= c_end; c += lanes) {
    V a = hn::Set(d, F::kInit);
    for (int64_t z = 0; z < wd.count; ++z)
      for (int64_t y = 0; y < wh.count; ++y) {
        const float* p = first(z, y) + c;
        for (int64_t x = 0; x < ww.count; ++x, p += w_step) a = F::combine(a, hn::LoadU(d, p));
      }
    hn::StoreU(plan.takes_max() ? a : hn::Div(a, hn::Set(d, by)), d, out + c);
  }
  for (; c < c_end; ++c) {
    float a = F::kInit;
    for (int64_t z = 0; z < wd.count; ++z)
      for (int64_t y = 0; y < wh.count; ++y) {
        const float* p = first(z, y) + c;
        for (int64_t x = 0; x < ww.count; ++x, p += w_step) a = F::combine(a, *p);
      }
    out[c] = a / by;
  }
}

template <typename F>
HWY_NOINLINE void channels_last(const Plan& plan, const float* in, float* out, int64_t begin, int64_t end,
                                int64_t c_begin, int64_t c_end) {
  const auto& [depth, height, width] = plan.axes;
  const int64_t image = depth.in * height.in * width.in * plan.channels;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t oh = row % height.out, od = row / height.out % depth.out, n = row / height.out / depth.out;
    float* to = out + row * width.out * plan.channels;
    for (int64_t ow = 0; ow < width.out; ++ow, to += plan.channels) {
      const Window &wd = depth.windows[od], &wh = height.windows[oh], &ww = width.windows[ow];
      if (!plan.takes_max() && (wd.count == 0 || wh.count == 0 || ww.count == 0))
        std::fill(to + c_begin, to + c_end, 0.0f);
      else
        pixel<F>(plan, wd, wh, ww, in + n * image, to, c_begin, c_end);
    }
  }
}

// acc[o] = combine(acc[o], x[o * stride]) for o in [0, count)
template <typename F>
HWY_INLINE void combine_row(float* acc, const float* x, int64_t count, int64_t stride) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t o = 0;
  if (stride == 1) {
    for (; o + lanes <= count; o += lanes)
      hn::StoreU(F::combine(hn::LoadU(d, acc + o), hn::LoadU(d, x + o)), d, acc + o);
  } else if (stride == 2) {
    // The pair of vectors reads one element past the last one it needs: stop where that would leave the row.
    for (; o + lanes < count; o += lanes) {
      V even, odd;
      hn::LoadInterleaved2(d, x + 2 * o, even, odd);
      hn::StoreU(F::combine(hn::LoadU(d, acc + o), even), d, acc + o);
    }
  }
  for (; o < count; ++o) acc[o] = F::combine(acc[o], x[o * stride]);
}

// A contiguous run: four partial results, so that the additions do not wait for each other.
template <typename F>
HWY_INLINE float combine_run(float start, const float* x, int64_t count) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  if (count >= 4 * lanes) {
    V a0 = hn::Set(d, F::kInit), a1 = a0, a2 = a0, a3 = a0;
    for (; i + 4 * lanes <= count; i += 4 * lanes) {
      a0 = F::combine(a0, hn::LoadU(d, x + i));
      a1 = F::combine(a1, hn::LoadU(d, x + i + lanes));
      a2 = F::combine(a2, hn::LoadU(d, x + i + 2 * lanes));
      a3 = F::combine(a3, hn::LoadU(d, x + i + 3 * lanes));
    }
    HWY_ALIGN float parts[hn::MaxLanes(d)];
    hn::Store(F::combine(F::combine(a0, a1), F::combine(a2, a3)), d, parts);
    for (int64_t k = 0; k < lanes; ++k) start = F::combine(start, parts[k]);
  }
  for (; i < count; ++i) start = F::combine(start, x[i]);
  return start;
}

// Windows one by one: adaptive pools, and outputs too narrow to vectorize along.
template <typename F>
HWY_INLINE void row_by_window(const Plan& plan, const Window& wd, const Window& wh, const float* plane,
                              float* out) {
  const auto& [depth, height, width] = plan.axes;
  for (int64_t ow = 0; ow < width.out; ++ow) {
    const Window& ww = width.windows[ow];
    float a = F::kInit;
    for (int64_t z = 0; z < wd.count; ++z) {
      const float* slice = plane + (wd.begin + z * depth.step) * height.in * width.in + ww.begin;
      if (width.step == 1 && height.step == 1 && ww.count == width.in) {  // whole rows are one run
        a = combine_run<F>(a, slice + wh.begin * width.in, wh.count * width.in);
        continue;
      }
      for (int64_t y = 0; y < wh.count; ++y) {
        const float* p = slice + (wh.begin + y * height.step) * width.in;
        if (width.step == 1)
          a = combine_run<F>(a, p, ww.count);
        else
          for (int64_t x = 0; x < ww.count; ++x) a = F::combine(a, p[x * width.step]);
      }
    }
    const bool empty = wd.count == 0 || wh.count == 0 || ww.count == 0;
    out[ow] = !plan.takes_max() && empty ? 0.0f : a / divisor(plan, wd, wh, ww);
  }
}

// Tap by tap: each tap of the window is one pass along the output row.
template <typename F>
HWY_INLINE void row_by_tap(const Plan& plan, const Window& wd, const Window& wh, const float* plane,
                           float* out) {
  const auto& [depth, height, width] = plan.axes;
  std::fill(out, out + width.out, F::kInit);
  for (int64_t z = 0; z < wd.count; ++z)
    for (int64_t y = 0; y < wh.count; ++y) {
      const float* line =
          plane + ((wd.begin + z * depth.step) * height.in + wh.begin + y * height.step) * width.in;
      for (int64_t t = 0; t < width.taps; ++t) {
        const int64_t offset = t * width.step - width.padding;  // of output 0
        const int64_t lo = offset >= 0 ? 0 : (-offset + width.stride - 1) / width.stride;
        if (offset >= width.in) break;
        const int64_t hi = std::min((width.in - 1 - offset) / width.stride + 1, width.out);
        if (lo < hi) combine_row<F>(out + lo, line + lo * width.stride + offset, hi - lo, width.stride);
      }
    }
  if (plan.takes_max()) return;
  for (int64_t ow = 0; ow < width.out; ++ow) {
    const bool empty = wd.count == 0 || wh.count == 0 || width.windows[ow].count == 0;
    out[ow] = empty ? 0.0f : out[ow] / divisor(plan, wd, wh, width.windows[ow]);
  }
}

template <typename F>
HWY_NOINLINE void planes(const Plan& plan, const float* in, float* out, int64_t begin, int64_t end) {
  const auto& [depth, height, width] = plan.axes;
  const bool by_tap = width.taps > 0 && width.out >= 8;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t oh = row % height.out, od = row / height.out % depth.out;
    const float* plane = in + row / height.out / depth.out * depth.in * height.in * width.in;
    const Window &wd = depth.windows[od], &wh = height.windows[oh];
    if (by_tap)
      row_by_tap<F>(plan, wd, wh, plane, out + row * width.out);
    else
      row_by_window<F>(plan, wd, wh, plane, out + row * width.out);
  }
}

void ChannelsLast(const Plan& plan, const float* in, float* out, int64_t begin, int64_t end, int64_t c_begin,
                  int64_t c_end) {
  if (plan.takes_max())
    channels_last<Max>(plan, in, out, begin, end, c_begin, c_end);
  else
    channels_last<Sum>(plan, in, out, begin, end, c_begin, c_end);
}
void Planes(const Plan& plan, const float* in, float* out, int64_t begin, int64_t end) {
  if (plan.takes_max())
    planes<Max>(plan, in, out, begin, end);
  else
    planes<Sum>(plan, in, out, begin, end);
}

}  // namespace sixfold::cpu::pool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sixfold::cpu::pool {

HWY_EXPORT(ChannelsLast);
HWY_EXPORT(Planes);

void channels_last_f32(const Plan& plan, const float* in, float* out, int64_t begin, int64_t end,
                       int64_t c_begin, int64_t c_end) {
  HWY_DYNAMIC_DISPATCH(ChannelsLast)(plan, in, out, begin, end, c_begin, c_end);
}
void planes_f32(const Plan& plan, const float* in, float* out, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(Planes)(plan, in, out, begin, end);
}

}  // namespace sixfold::cpu::pool
#endif
