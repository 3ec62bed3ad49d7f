// Filters of one tap for each channel, of 16-bit activations: the device computes these with floats.
#include <cmath>

#include "sixfold/emulator/elements.h"
#include "sixfold/emulator/product.h"
#include "sixfold/ops/conv/emulate.h"

namespace sixfold::emulator {
namespace {

struct Points {
  const float *gain, *bias;  // of every channel, as reals
  int64_t points, channels;
  Codec x, y;
  float from, to;  // a step of x; steps of y in 1

  void absorb(Clamp clamp) {
    y.limits.min = std::max<int64_t>(y.limits.min, clamp.min);
    y.limits.max = std::min<int64_t>(y.limits.max, clamp.max);
  }
  template <class X, class Y>
  void run_range(const Run& run, int64_t begin, int64_t end) const {
    const auto shift = static_cast<int32_t>(x.offset);
    const auto low = static_cast<float>(y.limits.min), high = static_cast<float>(y.limits.max),
               zero = static_cast<float>(-y.offset);
    for (int64_t r = begin; r < end; ++r) {
      const X* p = run.in<X>(0) + r * channels;
      Y* q = run.out<Y>() + r * channels;
      for (int64_t c = 0; c < channels; ++c) {
        const float value = static_cast<float>(p[c] + shift) * from;
        const float steps = std::nearbyint((value * gain[c] + bias[c]) * to + zero);
        q[c] = static_cast<Y>(static_cast<int32_t>(std::min(std::max(steps, low), high)));
      }
    }
  }
  void run(const Run& run) const {
    with_type(x.dtype, [&](auto in) {
      with_type(y.dtype, [&](auto out) {
        using X = decltype(in);
        using Y = decltype(out);
        if constexpr (std::is_integral_v<X> && sizeof(X) == 2 && std::is_integral_v<Y> && sizeof(Y) <= 2)
          run.pool.for_ranges(points, std::max<int64_t>(1, 16384 / channels),
                              [&](int64_t begin, int64_t end) { run_range<X, Y>(run, begin, end); });
      });
    });
  }
};

}  // namespace

bool is_points(const OpView& op, const ConvShape& s) {
  const cpu::QuantWindow& w = s.window;
  const bool plain = w.depthwise() && w.taps() == 1 && w.stride_y == 1 && w.stride_x == 1 &&
                     op.in(0).dims == op.out().dims && !s.transposed;
  return plain && qnn::size_of(op.in(0).dtype) == 2 && qnn::size_of(op.in(1).dtype) == 1 &&
         qnn::size_of(op.out().dtype) <= 2;
}

Result<Step> prepare_points(const OpView& op, const ConvShape& s, Prepare& prepare) {
  const TensorDef &x = op.in(0), &weights = op.in(1), &y = op.out();
  const auto channels = static_cast<size_t>(s.window.out_channels);
  const auto scale = [&](size_t c) { return weights.channel_encoding(c).scale; };
  Points state{};
  SF_ASSIGN(state.gain, prepare.pack_values<float>(channels, [&](std::span<float> out) {
    const FixedWeights numbers(weights, 1);
    for (size_t c = 0; c < channels; ++c) {
      const auto o = static_cast<int64_t>(c);
      out[c] = static_cast<float>(numbers.at(s.weight_index(0, 0, 0, o), o, 0)) * scale(c);
    }
  }));
  SF_ASSIGN(state.bias, prepare.pack_values<float>(channels, [&](std::span<float> out) {
    const auto units = biases_of(op.in(2), x, weights, s.window.out_channels, cpu::Rounding::vector);
    for (size_t c = 0; c < channels; ++c)
      out[c] = static_cast<float>(units[c]) * (scale(c) * x.encoding().scale);
  }));
  state.points = s.window.rows();
  state.channels = s.window.out_channels;
  state.x = Codec::of(x);
  state.y = Codec::of(y);
  state.from = x.encoding().scale;
  state.to = 1 / y.encoding().scale;
  return prepare.step(std::move(state), static_cast<uint64_t>(state.points * state.channels));
}

}  // namespace sixfold::emulator
