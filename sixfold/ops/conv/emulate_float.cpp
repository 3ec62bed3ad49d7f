// Convolutions of floats: sums in 32 bits, results rounded to halves.
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
  std::vector<const float*> weights;  // of a phase: [group][tap * input][output]
  const float* bias = nullptr;
  bool half = false;
  int64_t height = 0, width = 0;  // of the output

  template <typename T>
  void run_phase(const Run& run, const ConvPhase& p, const float* f) const {
    const cpu::QuantWindow& w = p.window;
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
        for (int64_t row = begin; row < end; ++row) {
          const int64_t x = p.out_x + row % w.out_width * p.every_x;
          const int64_t y = p.out_y + row / w.out_width % w.out_height * p.every_y;
          const int64_t n = row / w.out_width / w.out_height;
          T* to = run.out<T>() + ((n * height + y) * width + x) * w.out_channels + group * outputs;
          for (int64_t o = 0; o < outputs; ++o) {
            const float sum = sums[static_cast<size_t>((row - begin) * outputs + o)] +
                              (bias ? bias[group * outputs + o] : 0.0f);
            if constexpr (std::is_same_v<T, Half>)
              to[o] = Half(sum);
            else
              to[o] = to_half(sum);
          }
        }
      }
    });
  }

  template <typename T>
  static void gather(const T* x, const cpu::QuantWindow& w, int64_t group, int64_t begin, int64_t end,
                     float* to) {
    const int64_t inputs = w.inputs();
    for (int64_t row = begin; row < end; ++row) {
      const int64_t ox = row % w.out_width, oy = row / w.out_width % w.out_height;
      const int64_t n = row / w.out_width / w.out_height;
      for (int64_t t = 0; t < w.taps(); ++t, to += inputs) {
        const int64_t iy = oy * w.stride_y - w.pad_top + t / w.width * w.dilation_y;
        const int64_t ix = ox * w.stride_x - w.pad_left + t % w.width * w.dilation_x;
        if (iy < 0 || iy >= w.in_height || ix < 0 || ix >= w.in_width) {
          std::fill(to, to + inputs, 0.0f);
          continue;
        }
        const T* from = x + ((n * w.in_height + iy) * w.in_width + ix) * w.in_channels + group * inputs;
        for (int64_t i = 0; i < inputs; ++i) to[i] = from[i];
      }
    }
  }

  void run(const Run& run) const {
    for (size_t i = 0; i < phases.size(); ++i)
      half ? run_phase<Half>(run, phases[i], weights[i]) : run_phase<float>(run, phases[i], weights[i]);
  }
};

}  // namespace

Result<Step> prepare_float_conv(const OpView& op, const ConvShape& s, Prepare& prepare) {
  const TensorDef &f = op.in(1), &b = op.in(2);
  FloatConv state;
  state.phases = phases_of(s);
  state.half = op.in(0).dtype == DataType::f16;
  state.height = s.window.out_height, state.width = s.window.out_width;
  uint64_t macs = 0;
  for (const ConvPhase& p : state.phases) {
    const cpu::QuantWindow& w = p.window;
    const int64_t inner = w.taps() * w.inputs(), outputs = w.outputs();
    const FixedWeights fixed(f, w.inputs());
    const auto fill = [&](std::span<float> out) {
      for (int64_t o = 0; o < w.out_channels; ++o)
        for (int64_t k = 0; k < inner; ++k) {
          const int64_t at = p.weight_index(s, k / w.inputs(), k % w.inputs(), o);
          float value = 0;
          if (at >= 0 && f.dtype == DataType::f32)
            value = to_half(f.values<float>()[static_cast<size_t>(at)]);
          else if (at >= 0 && f.dtype == DataType::f16)
            value = f.values<Half>()[static_cast<size_t>(at)];
          else if (at >= 0)
            value = to_half(
                static_cast<float>(static_cast<double>(fixed.at(at, o, k % w.inputs())) * fixed.scale(o)));
          out[static_cast<size_t>((o / outputs * inner + k) * outputs + o % outputs)] = value;
        }
    };
    SF_ASSIGN(const float* weights,
              prepare.pack_values<float>(static_cast<size_t>(inner * w.out_channels), fill));
    state.weights.push_back(weights);
    macs += static_cast<uint64_t>(w.rows() * w.out_channels) * static_cast<uint64_t>(inner);
  }
  if (b.is_present()) {
    const auto fill = [&](std::span<float> out) {
      for (size_t i = 0; i < out.size(); ++i)
        out[i] = b.dtype == DataType::f16 ? static_cast<float>(b.values<Half>()[i])
                                          : to_half(b.values<float>()[i]);
    };
    if (!b.is_float()) return unsupported("in[2] is ", qnn::to_text(b.dtype), ", in[0] a float");
    SF_ASSIGN(state.bias, prepare.pack_values<float>(static_cast<size_t>(b.count()), fill));
  }
  return prepare.step(std::move(state), macs);
}

}  // namespace sixfold::emulator
