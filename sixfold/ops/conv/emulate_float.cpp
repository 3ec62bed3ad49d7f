// Convolutions of floats: exact sums are rounded to 32 bits, and with their bias to halves.
#include <algorithm>
#include <cstring>

#include "sixfold/cpu/sgemm.h"
#include "sixfold/emulator/numbers.h"
#include "sixfold/emulator/product.h"
#include "sixfold/ops/conv/emulate.h"

namespace sixfold::emulator {
namespace {

constexpr int64_t kRows = 24;

struct FloatConv {
  std::vector<ConvPhase> phases;
  std::vector<const float*> weights;  // of a phase: [group][tap * input][output], or [tap][channel]
  const float* bias = nullptr;
  bool half = false;
  bool keeps_sums = false;        // for an op that rounds them
  int64_t height = 0, width = 0;  // of the output

  // Every channel by itself: one output for each input.
  bool by_channel(const cpu::QuantWindow& w) const { return !half && w.inputs() == 1 && w.outputs() == 1; }

  template <typename T>
  T* pixel(const Run& run, const ConvPhase& p, int64_t row) const {
    const cpu::QuantWindow& w = p.window;
    const int64_t x = p.out_x + row % w.out_width * p.every_x;
    const int64_t y = p.out_y + row / w.out_width % w.out_height * p.every_y;
    const int64_t n = row / w.out_width / w.out_height;
    return run.out<T>() + ((n * height + y) * width + x) * w.out_channels;
  }

  // count sums from channel on.
  template <typename T>
  void put(const float* sums, int64_t channel, int64_t count, T* to) const {
    if constexpr (std::is_same_v<T, float>) {
      if (!keeps_sums) return cpu::add_to_halves(sums, bias ? bias + channel : nullptr, count, to + channel);
      for (int64_t o = 0; o < count; ++o) to[channel + o] = sums[o] + (bias ? bias[channel + o] : 0.0f);
    } else {
      for (int64_t o = 0; o < count; ++o)
        to[channel + o] = to_ieee_half(sums[o] + (bias ? bias[channel + o] : 0.0f));
    }
  }

  // Where a tap of a pixel lies in the input; null: outside.
  template <typename T>
  static const T* tap_of(const T* x, const cpu::QuantWindow& w, int64_t row, int64_t tap) {
    const int64_t ox = row % w.out_width, oy = row / w.out_width % w.out_height;
    const int64_t n = row / w.out_width / w.out_height;
    const int64_t iy = oy * w.stride_y - w.pad_top + tap / w.width * w.dilation_y;
    const int64_t ix = ox * w.stride_x - w.pad_left + tap % w.width * w.dilation_x;
    if (iy < 0 || iy >= w.in_height || ix < 0 || ix >= w.in_width) return nullptr;
    return x + ((n * w.in_height + iy) * w.in_width + ix) * w.in_channels;
  }

  void run_channels(const Run& run, const ConvPhase& p, const float* f) const {
    const cpu::QuantWindow& w = p.window;
    run.pool.for_ranges(w.rows(), kRows, [&](int64_t begin, int64_t end) {
      std::vector<const float*> taps(static_cast<size_t>(w.taps()));
      std::vector<float> sums(static_cast<size_t>(w.out_channels));
      for (int64_t row = begin; row < end; ++row) {
        for (size_t t = 0; t < taps.size(); ++t)
          taps[t] = tap_of(run.in<float>(0), w, row, static_cast<int64_t>(t));
        cpu::channel_products(taps, f, w.out_channels, sums.data());
        put(sums.data(), 0, w.out_channels, pixel<float>(run, p, row));
      }
    });
  }

  template <typename T>
  void run_phase(const Run& run, const ConvPhase& p, const float* f) const {
    const cpu::QuantWindow& w = p.window;
    if (by_channel(w)) return run_channels(run, p, f);
    const int64_t inner = w.taps() * w.inputs(), outputs = w.outputs();
    run.pool.for_ranges(w.rows(), kRows, [&](int64_t begin, int64_t end) {
      std::vector<float> taps(static_cast<size_t>((end - begin) * inner));
      std::vector<float> sums(static_cast<size_t>((end - begin) * outputs));
      for (int64_t group = 0; group < w.groups; ++group) {
        gather(run.in<T>(0), w, group, begin, end, taps.data());
        cpu::Gemm gemm{
            end - begin, outputs,     inner,  false, taps.data(), inner, f + group * inner * outputs,
            outputs,     sums.data(), outputs};
        cpu::sgemm_simd(gemm);
        for (int64_t row = begin; row < end; ++row)
          put(sums.data() + (row - begin) * outputs, group * outputs, outputs, pixel<T>(run, p, row));
      }
    });
  }

  template <typename T>
  static void gather(const T* x, const cpu::QuantWindow& w, int64_t group, int64_t begin, int64_t end,
                     float* to) {
    const int64_t inputs = w.inputs();
    for (int64_t row = begin; row < end; ++row)
      for (int64_t t = 0; t < w.taps(); ++t, to += inputs) {
        const T* from = tap_of(x, w, row, t);
        for (int64_t i = 0; i < inputs; ++i)
          to[i] = from ? static_cast<float>(from[group * inputs + i]) : 0.0f;
      }
  }

  void run(const Run& run) const {
    for (size_t i = 0; i < phases.size(); ++i)
      half ? run_phase<DeviceHalf>(run, phases[i], weights[i]) : run_phase<float>(run, phases[i], weights[i]);
  }
};

}  // namespace

Result<Step> prepare_float_conv(const OpView& op, const ConvShape& s, Prepare& prepare) {
  const TensorDef &f = op.in(1), &b = op.in(2);
  FloatConv state;
  state.phases = phases_of(s);
  state.half = op.in(0).dtype == DataType::f16;
  state.keeps_sums = op.out().keeps_sums;
  state.height = s.window.out_height, state.width = s.window.out_width;
  uint64_t macs = 0;
  for (const ConvPhase& p : state.phases) {
    const cpu::QuantWindow& w = p.window;
    const int64_t inner = w.taps() * w.inputs(), outputs = w.outputs();
    const FixedWeights fixed(f, w.inputs());
    const auto value = [&](int64_t at, int64_t output, int64_t input) -> float {
      if (f.dtype == DataType::f32) return to_half(f.values<float>()[static_cast<size_t>(at)]);
      if (f.dtype == DataType::f16) return f.values<DeviceHalf>()[static_cast<size_t>(at)];
      return fixed.real_at(at, output, input);
    };
    const auto fill = [&](std::span<float> out) {
      for (int64_t g = 0; g < w.groups; ++g)
        for (int64_t k = 0; k < inner; ++k) {  // outputs of a group lie beside each other
          const int64_t at = p.weight_index(s, k / w.inputs(), k % w.inputs(), g * outputs);
          float* to = out.data() + (state.by_channel(w) ? k * w.groups + g : g * inner + k) * outputs;
          for (int64_t o = 0; o < outputs; ++o)
            to[o] = at < 0 ? 0.0f : value(at + o, g * outputs + o, k % w.inputs());
        }
    };
    SF_ASSIGN(const float* weights,
              prepare.pack_values<float>(static_cast<size_t>(inner * w.out_channels), fill));
    state.weights.push_back(weights);
    macs += static_cast<uint64_t>(w.rows() * w.out_channels) * static_cast<uint64_t>(inner);
  }
  if (b.is_present()) {
    const auto fill = [&](std::span<float> out) {
      for (size_t i = 0; i < out.size(); ++i) out[i] = float_bias_of(b, i);
    };
    if (!b.is_float()) return unsupported("in[2] is ", qnn::to_text(b.dtype), ", in[0] a float");
    SF_ASSIGN(state.bias, prepare.pack_values<float>(static_cast<size_t>(b.count()), fill));
  }
  return prepare.step(std::move(state), macs);
}

}  // namespace sixfold::emulator
