// Convolutions of volumes of floats: exact sums are rounded to 32 bits, and with their bias to halves.
#include <algorithm>

#include "sixfold/cpu/sgemm.h"
#include "sixfold/emulator/numbers.h"
#include "sixfold/emulator/product.h"
#include "sixfold/ops/conv/emulate_volume.h"

namespace sixfold::emulator {
namespace {

constexpr int64_t kRows = 24;

struct VolumeFloats {
  Volume v;
  const float* weights;  // [group][tap][input][output]
  const float* bias;

  int64_t taps() const { return v.taps[0] * v.taps[1] * v.taps[2]; }

  // What outputs [begin, end) read, tap by tap.
  void gather(const float* x, int64_t group, int64_t begin, int64_t end, float* to) const {
    const int64_t inputs = v.inputs();
    for (int64_t o = begin; o < end; ++o)
      v.for_taps(o, [&](int64_t, int64_t at) {
        if (at < 0)
          std::fill_n(to, inputs, 0.0f);
        else
          std::copy_n(x + at + group * inputs, inputs, to);
        to += inputs;
      });
  }

  void run(const Run& run) const {
    const int64_t inner = taps() * v.inputs(), outputs = v.outputs();
    run.pool.for_ranges(v.batch * v.out[0] * v.out[1] * v.out[2], kRows, [&](int64_t begin, int64_t end) {
      std::vector<float> rows(static_cast<size_t>((end - begin) * inner));
      std::vector<float> sums(static_cast<size_t>((end - begin) * outputs));
      for (int64_t group = 0; group < v.groups; ++group) {
        gather(run.in<float>(0), group, begin, end, rows.data());
        cpu::sgemm_simd({end - begin, outputs, inner, false, rows.data(), inner,
                         weights + group * inner * outputs, outputs, sums.data(), outputs});
        for (int64_t o = begin; o < end; ++o)
          cpu::add_to_halves(sums.data() + (o - begin) * outputs, bias ? bias + group * outputs : nullptr,
                             outputs, run.out<float>() + o * v.out_channels + group * outputs);
      }
    });
  }
};

}  // namespace

Result<Step> prepare_volume_floats(const OpView& op, const Volume& v, Prepare& prepare) {
  const TensorDef &f = op.in(1), &b = op.in(2);
  VolumeFloats state{v, nullptr, nullptr};
  const int64_t inputs = v.inputs(), outputs = v.outputs();
  const auto fill = [&](std::span<float> out) {
    size_t to = 0;
    for (int64_t g = 0; g < v.groups; ++g)
      for (int64_t t = 0; t < state.taps(); ++t)
        for (int64_t i = 0; i < inputs; ++i)
          for (int64_t o = 0; o < outputs; ++o)
            out[to++] = to_half(f.values<float>()[static_cast<size_t>(v.weight_index(t, g, i, o))]);
  };
  SF_ASSIGN(state.weights, prepare.pack_values<float>(static_cast<size_t>(f.count()), fill));
  if (b.is_present()) {
    const auto fill_bias = [&](std::span<float> out) {
      for (size_t i = 0; i < out.size(); ++i) out[i] = float_bias_of(b, i);
    };
    SF_ASSIGN(state.bias, prepare.pack_values<float>(static_cast<size_t>(b.count()), fill_bias));
  }
  const uint64_t macs =
      static_cast<uint64_t>(op.out().count()) * static_cast<uint64_t>(inputs * state.taps());
  return prepare.step(state, macs);
}

}  // namespace sixfold::emulator
