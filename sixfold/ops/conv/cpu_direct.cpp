// f32 convolution by our own SIMD code, for builds without oneDNN; channels-last inside.
//
// Four points of the output and two vectors of its channels are summed at once, over all taps and input
// channels; a tap that lies in the padding reads a row of zeros. Weights are packed as [group][tap][channel
// in][channels out], the channels out padded to whole vectors.
#include <algorithm>
#include <cassert>
#include <cstring>
#include <memory>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sixfold/ops/conv/cpu_direct.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sixfold/ops/conv/conv.h"

HWY_BEFORE_NAMESPACE();
namespace sixfold::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using F32 = hn::ScalableTag<float>;
using V32 = hn::Vec<F32>;

int64_t conv_vector_width() { return static_cast<int64_t>(2 * hn::Lanes(F32())); }

// sums[p][0 .. width): sources has `taps` rows of four pointers to `inner` numbers each.
void conv_points(const float* const* sources, int64_t taps, int64_t inner, const float* weights,
                 int64_t weight_step, float* sums) {
  const F32 d;
  const size_t lanes = hn::Lanes(d);
  V32 left[4], right[4];
  for (int p = 0; p < 4; ++p) left[p] = right[p] = hn::Zero(d);
  for (int64_t tap = 0; tap < taps; ++tap) {
    const float *x0 = sources[4 * tap], *x1 = sources[4 * tap + 1], *x2 = sources[4 * tap + 2],
                *x3 = sources[4 * tap + 3];
    for (int64_t c = 0; c < inner; ++c, weights += weight_step) {
      const V32 w0 = hn::LoadU(d, weights), w1 = hn::LoadU(d, weights + lanes);
      const V32 a0 = hn::Set(d, x0[c]), a1 = hn::Set(d, x1[c]), a2 = hn::Set(d, x2[c]),
                a3 = hn::Set(d, x3[c]);
      left[0] = hn::MulAdd(a0, w0, left[0]);
      right[0] = hn::MulAdd(a0, w1, right[0]);
      left[1] = hn::MulAdd(a1, w0, left[1]);
      right[1] = hn::MulAdd(a1, w1, right[1]);
      left[2] = hn::MulAdd(a2, w0, left[2]);
      right[2] = hn::MulAdd(a2, w1, right[2]);
      left[3] = hn::MulAdd(a3, w0, left[3]);
      right[3] = hn::MulAdd(a3, w1, right[3]);
    }
  }
  for (int p = 0; p < 4; ++p) {
    hn::StoreU(left[p], d, sums + static_cast<size_t>(p) * 2 * lanes);
    hn::StoreU(right[p], d, sums + static_cast<size_t>(p) * 2 * lanes + lanes);
  }
}

// A depthwise convolution of one point: out[c] = sum over taps of x[tap][c] * w[tap][c].
void depthwise_point(const float* const* sources, int64_t taps, const float* weights, int64_t weight_step,
                     int64_t channels, float* out) {
  const F32 d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + lanes <= channels; c += lanes) {
    V32 sum = hn::Zero(d);
    for (int64_t tap = 0; tap < taps; ++tap)
      sum =
          hn::MulAdd(hn::LoadU(d, sources[4 * tap] + c), hn::LoadU(d, weights + tap * weight_step + c), sum);
    hn::StoreU(sum, d, out + c);
  }
  for (; c < channels; ++c) {
    float sum = 0;
    for (int64_t tap = 0; tap < taps; ++tap) sum += sources[4 * tap][c] * weights[tap * weight_step + c];
    out[c] = sum;
  }
}

}  // namespace sixfold::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sixfold::cpu {
namespace {

HWY_EXPORT(conv_vector_width);
HWY_EXPORT(conv_points);
HWY_EXPORT(depthwise_point);

constexpr int64_t kMostTaps = 128;      // of the table of sources, which is on the stack
constexpr int64_t kMostWidth = 128;     // two vectors of 256 bytes, the longest that Highway knows
constexpr int64_t kTaskWork = 1 << 18;  // multiplications

class DirectConv final : public Kernel {
 public:
  static KernelResult make(const ConvCall& call);
  Status run(const Buffers& buffers) override;

 private:
  struct Operands {
    const float *src, *weights, *bias, *residual, *scale, *shift, *zeros;
    float* dst;
  };
  size_t reserve(int64_t floats) {
    const size_t at = scratch_bytes_;
    scratch_bytes_ += (static_cast<size_t>(floats) * sizeof(float) + 63) / 64 * 64;
    return at;
  }
  int64_t packed_floats() const {
    return depthwise_ ? taps_ * call_.shape.out_channels
                      : call_.shape.groups * taps_ * group_in_ * weight_step_;
  }
  void pack(const float* from, float* to) const;
  // The input row that output point `point` reads with `tap`, or zeros.
  const float* source(const Operands& o, int64_t image, int64_t point, int64_t tap) const;
  void run_points(const Operands& o, int64_t image, int64_t first, int64_t last) const;
  void finish(const Operands& o, int64_t at, int64_t channel, int64_t count) const;

  ConvCall call_;
  bool depthwise_ = false;
  int64_t taps_ = 1, group_in_ = 1, group_out_ = 1, width_ = 0, weight_step_ = 0;
  OwnedBlock packed_;
  size_t packed_offset_ = 0, zeros_offset_ = 0, src_offset_ = 0, dst_offset_ = 0, residual_offset_ = 0;
};

KernelResult DirectConv::make(const ConvCall& call) {
  auto out = std::make_unique<DirectConv>();
  out->call_ = call;
  const ConvShape& s = call.shape;
  out->taps_ = numel(s.kernel);
  out->width_ = HWY_DYNAMIC_DISPATCH(conv_vector_width)();
  assert(out->width_ <= kMostWidth);
  if (out->taps_ > kMostTaps) return unsupported("a convolution of ", out->taps_, " taps");
  out->group_in_ = s.in_channels / s.groups;
  out->group_out_ = s.out_channels / s.groups;
  out->depthwise_ = out->group_in_ == 1 && out->group_out_ == 1;
  out->weight_step_ =
      out->depthwise_ ? s.out_channels : (out->group_out_ + out->width_ - 1) / out->width_ * out->width_;
  out->zeros_offset_ = out->reserve(s.in_channels);
  if (call.row_major_in) out->src_offset_ = out->reserve(s.batch * s.in_points() * s.in_channels);
  if (call.row_major_out) out->dst_offset_ = out->reserve(s.batch * s.out_points() * s.out_channels);
  if (call.row_major_residual)
    out->residual_offset_ = out->reserve(s.batch * s.out_points() * s.out_channels);
  if (call.weights) {
    SF_ASSIGN(out->packed_,
              OwnedBlock::take(*call.allocator, static_cast<size_t>(out->packed_floats()) * sizeof(float),
                               "packed weights"));
    out->pack(call.weights, reinterpret_cast<float*>(out->packed_.data()));
    out->packed_weights_ = true;
  } else {
    out->packed_offset_ = out->reserve(out->packed_floats());
  }
  return std::unique_ptr<Kernel>(std::move(out));
}

// From [O, C/G, taps], or [C, O/G, taps] of a transposed convolution.
void DirectConv::pack(const float* from, float* to) const {
  const ConvShape& s = call_.shape;
  if (!depthwise_) std::memset(to, 0, static_cast<size_t>(packed_floats()) * sizeof(float));
  for (int64_t g = 0; g < s.groups; ++g) {
    for (int64_t o = 0; o < group_out_; ++o) {
      for (int64_t c = 0; c < group_in_; ++c) {
        const float* w = from + (s.transposed ? ((g * group_in_ + c) * group_out_ + o)
                                              : ((g * group_out_ + o) * group_in_ + c)) *
                                    taps_;
        for (int64_t tap = 0; tap < taps_; ++tap) {
          if (depthwise_)
            to[tap * weight_step_ + g] = w[tap];
          else
            to[((g * taps_ + tap) * group_in_ + c) * weight_step_ + o] = w[tap];
        }
      }
    }
  }
}

const float* DirectConv::source(const Operands& o, int64_t image, int64_t point, int64_t tap) const {
  const ConvShape& s = call_.shape;
  int64_t at = 0, step = 1;
  for (size_t d = s.in.size(); d-- > 0;) {
    const int64_t q = point % s.out[d], k = tap % s.kernel[d];
    point /= s.out[d];
    tap /= s.kernel[d];
    int64_t i;
    if (s.transposed) {
      i = q + s.padding[d] - k * s.dilation[d];
      if (i < 0 || i % s.stride[d] != 0) return o.zeros;
      i /= s.stride[d];
    } else {
      i = q * s.stride[d] - s.padding[d] + k * s.dilation[d];
    }
    if (i < 0 || i >= s.in[d]) return o.zeros;
    at += i * step;
    step *= s.in[d];
  }
  return o.src + (image * s.in_points() + at) * s.in_channels;
}

// What is done to `count` sums from `channel` on of the point whose channels begin at `at`.
void DirectConv::finish(const Operands& o, int64_t at, int64_t channel, int64_t count) const {
  float* out = o.dst + at + channel;
  if (o.bias)
    for (int64_t i = 0; i < count; ++i) out[i] += o.bias[channel + i];
  if (o.scale)
    for (int64_t i = 0; i < count; ++i) out[i] = out[i] * o.scale[channel + i] + o.shift[channel + i];
  if (o.residual)
    for (int64_t i = 0; i < count; ++i) out[i] += o.residual[at + channel + i];
  call_.activation(out, out, static_cast<size_t>(count));
}

void DirectConv::run_points(const Operands& o, int64_t image, int64_t first, int64_t last) const {
  const ConvShape& s = call_.shape;
  const float* sources[4 * kMostTaps];
  for (int64_t point = first; point < last; point += depthwise_ ? 1 : 4) {
    const int64_t points = depthwise_ ? 1 : std::min<int64_t>(4, last - point);
    for (int64_t tap = 0; tap < taps_; ++tap)
      for (int64_t p = 0; p < 4; ++p)
        sources[4 * tap + p] = p < points ? source(o, image, point + p, tap) : o.zeros;
    const int64_t at = (image * s.out_points() + point) * s.out_channels;
    if (depthwise_) {
      HWY_DYNAMIC_DISPATCH(depthwise_point)
      (sources, taps_, o.weights, weight_step_, s.out_channels, o.dst + at);
      finish(o, at, 0, s.out_channels);
      continue;
    }
    for (int64_t g = 0; g < s.groups; ++g) {
      const float* weights = o.weights + g * taps_ * group_in_ * weight_step_;
      if (g > 0)
        for (int64_t i = 0; i < 4 * taps_; ++i)
          if (sources[i] != o.zeros) sources[i] += group_in_;
      for (int64_t channel = 0; channel < group_out_; channel += width_) {
        const int64_t count = std::min(width_, group_out_ - channel);
        float sums[4 * kMostWidth];
        HWY_DYNAMIC_DISPATCH(conv_points)(sources, taps_, group_in_, weights + channel, weight_step_, sums);
        for (int64_t p = 0; p < points; ++p) {
          const int64_t to = at + p * s.out_channels;
          std::memcpy(o.dst + to + g * group_out_ + channel, sums + p * width_,
                      static_cast<size_t>(count) * sizeof(float));
          finish(o, to, g * group_out_ + channel, count);
        }
      }
    }
  }
}

Status DirectConv::run(const Buffers& b) {
  const ConvShape& s = call_.shape;
  const auto floats = [&](size_t offset) { return reinterpret_cast<float*>(b.scratch + offset); };
  Operands o{b.input<float>(0),
             reinterpret_cast<const float*>(packed_.data()),
             call_.bias ? b.input<float>(2) : nullptr,
             call_.residual ? b.input<float>(3) : nullptr,
             call_.norm ? b.input<float>(4) : nullptr,
             call_.norm ? b.input<float>(5) : nullptr,
             floats(zeros_offset_),
             b.output<float>()};
  std::fill_n(floats(zeros_offset_), s.in_channels, 0.0f);
  if (!packed_) {
    pack(b.input<float>(1), floats(packed_offset_));
    o.weights = floats(packed_offset_);
  }
  if (call_.row_major_in) {
    to_channels_last(b.pool, o.src, floats(src_offset_), s.batch, s.in_channels, s.in_points());
    o.src = floats(src_offset_);
  }
  if (o.residual && call_.row_major_residual) {
    to_channels_last(b.pool, o.residual, floats(residual_offset_), s.batch, s.out_channels, s.out_points());
    o.residual = floats(residual_offset_);
  }
  if (call_.row_major_out) o.dst = floats(dst_offset_);
  const int64_t point_work = std::max<int64_t>(1, s.multiplications() / (s.batch * s.out_points()));
  const int64_t grain = std::clamp<int64_t>(kTaskWork / point_work / 4 * 4, 4, s.out_points() + 4);
  for (int64_t image = 0; image < s.batch; ++image)
    b.pool.for_ranges(s.out_points(), grain,
                      [&](int64_t begin, int64_t end) { run_points(o, image, begin, end); });
  if (call_.row_major_out)
    to_row_major(b.pool, o.dst, b.output<float>(), s.batch, s.out_channels, s.out_points());
  return ok_status();
}

}  // namespace

KernelResult make_direct_conv(const ConvCall& call) { return DirectConv::make(call); }

}  // namespace sixfold::cpu
#endif
