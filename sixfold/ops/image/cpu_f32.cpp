// upsample's loops for f32, once per instruction set.
#include <algorithm>

#include "sixfold/ops/image/resize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sixfold/ops/image/cpu_f32.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sixfold::cpu::image::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// line = sum of the input rows that output row (d, h) mixes, each by its weight.
HWY_INLINE void mix_rows(const Plan& plan, const float* plane, int64_t d, int64_t h,
                         float* HWY_RESTRICT line) {
  const auto& [depth, height, width] = plan.axes;
  const D tag;
  const auto lanes = static_cast<int64_t>(hn::Lanes(tag));
  bool first = true;
  for (int32_t a = 0; a < depth.count[d]; ++a)
    for (int32_t b = 0; b < height.count[h]; ++b, first = false) {
      const float weight = depth.weight_f32[a * depth.out + d] * height.weight_f32[b * height.out + h];
      const float* row =
          plane + (depth.index[a * depth.out + d] * height.in + height.index[b * height.out + h]) * width.in;
      const V w = hn::Set(tag, weight);
      int64_t x = 0;
      for (; x + lanes <= width.in; x += lanes) {
        const V v = hn::LoadU(tag, row + x);
        hn::StoreU(first ? hn::Mul(v, w) : hn::MulAdd(v, w, hn::LoadU(tag, line + x)), tag, line + x);
      }
      for (; x < width.in; ++x) line[x] = first ? row[x] * weight : line[x] + row[x] * weight;
    }
  if (first) std::fill(line, line + width.in, 0.0f);
}

// out[w] = sum over taps of line[index] * weight
template <int kTaps>
HWY_INLINE void mix_columns(const Axis& width, const float* line, float* out) {
  const D tag;
  const hn::RebindToSigned<D> itag;
  const auto lanes = static_cast<int64_t>(hn::Lanes(tag));
  const int32_t* index = width.index.data();
  const float* weight = width.weight_f32.data();
  int64_t w = 0;
  for (; w + lanes <= width.out; w += lanes) {
    V sum = hn::Mul(hn::GatherIndex(tag, line, hn::LoadU(itag, index + w)), hn::LoadU(tag, weight + w));
    for (int k = 1; k < kTaps; ++k) {
      const int64_t at = k * width.out + w;
      sum = hn::MulAdd(hn::GatherIndex(tag, line, hn::LoadU(itag, index + at)), hn::LoadU(tag, weight + at),
                       sum);
    }
    hn::StoreU(sum, tag, out + w);
  }
  for (; w < width.out; ++w) {
    float sum = line[index[w]] * weight[w];
    for (int k = 1; k < kTaps; ++k) sum += line[index[k * width.out + w]] * weight[k * width.out + w];
    out[w] = sum;
  }
}

HWY_INLINE void mix_counted_columns(const Axis& width, const float* line, float* out) {
  for (int64_t w = 0; w < width.out; ++w) {
    float sum = 0.0f;
    for (int32_t k = 0; k < width.count[w]; ++k)
      sum += line[width.index[k * width.out + w]] * width.weight_f32[k * width.out + w];
    out[w] = sum;
  }
}

void Planes(const Plan& plan, const float* in, float* out, float* line, int64_t begin, int64_t end) {
  const auto& [depth, height, width] = plan.axes;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t h = row % height.out, d = row / height.out % depth.out;
    const float* plane = in + row / height.out / depth.out * depth.in * height.in * width.in;
    mix_rows(plan, plane, d, h, line);
    float* to = out + row * width.out;
    if (width.taps == 2)
      mix_columns<2>(width, line, to);
    else if (width.taps == 4)
      mix_columns<4>(width, line, to);
    else
      mix_counted_columns(width, line, to);
  }
}

// out[c] = sum over taps; the pixels of a window are `offsets` from the image.
HWY_INLINE void mix_pixels(const float* in, const int64_t* offsets, const float* weights, int64_t taps,
                           float* out, int64_t channels) {
  const D tag;
  const auto lanes = static_cast<int64_t>(hn::Lanes(tag));
  int64_t c = 0;
  for (; c + lanes <= channels; c += lanes) {
    V sum = hn::Mul(hn::LoadU(tag, in + offsets[0] + c), hn::Set(tag, weights[0]));
    for (int64_t k = 1; k < taps; ++k)
      sum = hn::MulAdd(hn::LoadU(tag, in + offsets[k] + c), hn::Set(tag, weights[k]), sum);
    hn::StoreU(sum, tag, out + c);
  }
  for (; c < channels; ++c) {
    float sum = in[offsets[0] + c] * weights[0];
    for (int64_t k = 1; k < taps; ++k) sum += in[offsets[k] + c] * weights[k];
    out[c] = sum;
  }
}

void ChannelsLast(const Plan& plan, const float* in, float* out, int64_t begin, int64_t end) {
  constexpr int64_t kMost = 64;  // pixels mixed at once
  const auto& [depth, height, width] = plan.axes;
  const int64_t channels = plan.channels, image = depth.in * height.in * width.in * channels;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t h = row % height.out, d = row / height.out % depth.out, n = row / height.out / depth.out;
    float* to = out + row * width.out * channels;
    for (int64_t w = 0; w < width.out; ++w, to += channels) {
      int64_t offsets[kMost];
      float weights[kMost];
      int64_t taps = 0;
      bool started = false;
      // A window larger than kMost (antialiasing) goes in parts; each later one starts from what is there.
      const auto flush = [&]() HWY_ATTR {
        if (!started) {
          mix_pixels(in + n * image, offsets, weights, taps, to, channels);
        } else {
          for (int64_t k = 0; k < taps; ++k)
            for (int64_t c = 0; c < channels; ++c) to[c] += in[n * image + offsets[k] + c] * weights[k];
        }
        started = true;
        taps = 0;
      };
      for (int32_t a = 0; a < depth.count[d]; ++a)
        for (int32_t b = 0; b < height.count[h]; ++b)
          for (int32_t e = 0; e < width.count[w]; ++e) {
            const int64_t i = a * depth.out + d, j = b * height.out + h, k = e * width.out + w;
            offsets[taps] =
                ((depth.index[i] * height.in + height.index[j]) * width.in + width.index[k]) * channels;
            weights[taps++] = depth.weight_f32[i] * height.weight_f32[j] * width.weight_f32[k];
            if (taps == kMost) flush();
          }
      if (taps > 0) flush();
      if (!started) std::fill(to, to + channels, 0.0f);
    }
  }
}

}  // namespace sixfold::cpu::image::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sixfold::cpu::image {

HWY_EXPORT(Planes);
HWY_EXPORT(ChannelsLast);

void resize_planes_f32(const Plan& plan, const float* in, float* out, float* line, int64_t begin,
                       int64_t end) {
  HWY_DYNAMIC_DISPATCH(Planes)(plan, in, out, line, begin, end);
}
void resize_channels_last_f32(const Plan& plan, const float* in, float* out, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(ChannelsLast)(plan, in, out, begin, end);
}

}  // namespace sixfold::cpu::image
#endif
