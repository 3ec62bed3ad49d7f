// Convolutions by 16-bit weights: two bytes each, 256 high + low, the low one signed. Activations are one or
// two bytes as well; the sums of their products are joined and rounded as those of matrices are.
#include "sixfold/cpu/broadcast.h"
#include "sixfold/cpu/quant_matrix.h"
#include "sixfold/emulator/numbers.h"
#include "sixfold/emulator/product.h"
#include "sixfold/ops/conv/emulate.h"

namespace sixfold::emulator {
namespace {

// Every stride-th place of the result of a transposed convolution; all places of another.
struct WidePhase {
  ConvPhase place;
  const std::byte *high = nullptr, *low = nullptr;

  int64_t results() const { return place.window.rows() * place.window.out_channels; }
};

struct WideConv {
  std::vector<WidePhase> phases;
  int64_t height = 0, width = 0;  // of the result
  cpu::QuantInput input;
  cpu::QuantOutput output;
  size_t sums = 0, window_scratch = 0;  // places in scratch; the planes of x are first

  void absorb(Clamp clamp) { cut(output, clamp); }

  void run(const Run& run) const {
    const cpu::QuantWindow& w = phases.front().place.window;
    const int64_t n = w.batch * w.in_height * w.in_width * w.in_channels;
    auto* bytes = reinterpret_cast<uint8_t*>(run.scratch);
    run.pool.for_ranges(n, cpu::kElementwiseGrain, [&](int64_t begin, int64_t end) {
      if (input.wide)
        return cpu::split_bytes(run.in<uint16_t>(0) + begin, end - begin, input.flip, bytes + begin,
                                bytes + n + begin);
      const uint8_t flip = input.flip ? 0x80 : 0;
      for (int64_t i = begin; i < end; ++i) bytes[i] = run.in<uint8_t>(0)[i] ^ flip;
    });
    for (const WidePhase& phase : phases) run_phase(phase, bytes, n, run);
  }

  void run_phase(const WidePhase& phase, const uint8_t* bytes, int64_t plane_bytes, const Run& run) const {
    const cpu::QuantWindow& window = phase.place.window;
    const cpu::QuantLayout layout = quant_layout(window);
    auto* s = reinterpret_cast<int32_t*>(run.scratch + sums);
    cpu::QuantOutput none;
    none.rounding = cpu::Rounding::none;
    const int64_t results = phase.results(), pixel = window.out_channels * 4, row = pixel * window.out_width;
    const auto product = [&](int64_t plane, const std::byte* weights, int64_t to) {
      cpu::QuantInput in;
      in.data = reinterpret_cast<const std::byte*>(bytes + plane * plane_bytes);
      in.zero_point = plane == 0 ? input.zero_point & 255 : input.zero_point >> 8;
      const cpu::QuantResult result{reinterpret_cast<std::byte*>(s + to * results), pixel, row,
                                    row * window.out_height};
      run_quant(window, weights, in, none, result, run.scratch + window_scratch, run.pool);
    };
    product(0, phase.high, 0), product(0, phase.low, 1);
    if (input.wide) product(1, phase.high, 2), product(1, phase.low, 3);
    const auto* channels = reinterpret_cast<const cpu::QuantChannels*>(phase.high + layout.weight_bytes);
    const int64_t element = output.wide ? 2 : 1;
    // Channels of a group begin a block of their own.
    const int64_t groups = layout.depthwise ? 1 : window.groups, outputs = window.out_channels / groups;
    run.pool.for_ranges(
        window.rows(), std::max<int64_t>(1, 8192 / window.out_channels), [&](int64_t begin, int64_t end) {
          for (int64_t r = begin; r < end; ++r)
            for (int64_t g = 0; g < groups; ++g) {
              const int32_t* sum = s + r * window.out_channels + g * outputs;
              const int64_t to = place_of(phase.place, r) * window.out_channels + g * outputs;
              finish_pairs(sum, sum + results, input.wide ? sum + 2 * results : nullptr, sum + 3 * results,
                           outputs, channels + g * layout.blocks, output, run.outs[0] + to * element);
            }
        });
  }

  // The pixel of the result that row r of a phase is.
  int64_t place_of(const ConvPhase& p, int64_t r) const {
    const int64_t x = p.out_x + r % p.window.out_width * p.every_x;
    const int64_t y = p.out_y + r / p.window.out_width % p.window.out_height * p.every_y;
    return (r / p.window.out_width / p.window.out_height * height + y) * width + x;
  }
};

// Both bytes of the weights of a phase, with the channels' factors behind the first.
Result<const std::byte*> pack_wide(const OpView& op, const ConvShape& s, const ConvPhase& phase,
                                   const WideConv& to, Prepare& prepare) {
  const TensorDef &x = op.in(0), &w = op.in(1), &b = op.in(2), &y = op.out();
  const cpu::QuantWindow& window = phase.window;
  const FixedWeights weights(w, window.inputs());
  const int64_t bytes = quant_layout(window).bytes;
  const bool wide = to.input.wide;
  return prepare.pack(static_cast<size_t>(2 * bytes), [&](std::span<std::byte> out) {
    const auto number = [&](int64_t tap, int64_t input, int64_t output) {
      const int64_t at = phase.weight_index(s, tap, input, output);
      return at < 0 ? 0 : std::clamp<int64_t>(weights.at(at, output, input), -32768, cpu::kLargestPair);
    };
    const auto top = [](int64_t v) { return (v + 128) >> 8; };
    const auto pack = [&](auto part, std::byte* to) {
      pack_quant(
          window,
          [&](int64_t t, int64_t i, int64_t first, std::span<int32_t> outputs) {
            for (size_t k = 0; k < outputs.size(); ++k)
              outputs[k] = static_cast<int32_t>(part(number(t, i, first + static_cast<int64_t>(k))));
          },
          to);
    };
    pack(top, out.data());
    pack([&](int64_t v) { return v - 256 * top(v); }, out.data() + bytes);
    cpu::QuantChannels* channels = quant_channels(window, out.data());
    const cpu::QuantChannels* low = quant_channels(window, out.data() + bytes);
    const std::vector<int64_t> biases = biases_of(b, x, w, window.out_channels, to.output.rounding);
    const Factors factors(x, w, y, window.out_channels);
    for (int64_t o = 0; o < window.out_channels; ++o) {
      const auto [block, i] = quant_place(window, o);
      const int64_t sum = int64_t{channels[block].sum[i]} * 256 + low[block].sum[i];
      const int64_t bias = fold_pair_bias(wide, biases[static_cast<size_t>(o)], to.input.zero_point * sum);
      channels[block].bias[i] = static_cast<int32_t>(std::clamp<int64_t>(bias, INT32_MIN, INT32_MAX));
      cpu::set_factor(channels[block], i, cpu::Rounding::matrix16, factors(o) * (wide ? 256 : 1));
    }
  });
}

}  // namespace

Result<Step> prepare_wide_conv(const OpView& op, const ConvShape& s, Prepare& prepare) {
  const TensorDef &x = op.in(0), &w = op.in(1), &y = op.out();
  WideConv state;
  state.height = s.window.out_height, state.width = s.window.out_width;
  state.input = quant_input(x);
  state.output = quant_output(y, cpu::Rounding::matrix16);
  state.output.lefts = true;
  const FixedWeights weights(w, s.window.inputs());
  for (int64_t o = 0; o < s.window.out_channels; ++o) {
    cpu::QuantChannels one;
    const double factor = static_cast<double>(x.encoding().scale) * weights.scale(o) / y.encoding().scale;
    if (!cpu::set_factor(one, 0, cpu::Rounding::matrix16, factor * (state.input.wide ? 256 : 1)))
      return unsupported("in[0]'s scale times in[1]'s, channel ", o, ", is ", factor, " of out[0]'s");
  }
  const auto up = [](int64_t n) { return static_cast<size_t>((n + 63) / 64 * 64); };
  int64_t most_results = 0, most_scratch = 0;
  uint64_t macs = 0;
  for (const ConvPhase& place : phases_of(s)) {
    const cpu::QuantWindow& window = place.window;
    if (!quant_fits(window)) return unsupported("the emulator has no filter of ", window.taps(), " taps");
    constexpr int64_t kMostProducts = 16384;  // whose sums are added in 32 bits
    if (window.taps() * window.inputs() > kMostProducts)
      return unsupported("the emulator has no sums of ", window.taps() * window.inputs(),
                         " products by 16-bit weights");
    WidePhase phase{place};
    SF_ASSIGN(phase.high, pack_wide(op, s, place, state, prepare));
    phase.low = phase.high + quant_layout(window).bytes;
    most_results = std::max(most_results, phase.results());
    most_scratch = std::max(most_scratch, static_cast<int64_t>(quant_scratch(window, {})));
    macs += static_cast<uint64_t>(window.rows() * window.out_channels) *
            static_cast<uint64_t>(window.taps() * window.inputs());
    state.phases.push_back(phase);
  }
  state.sums = up(x.count() * 2);
  state.window_scratch = state.sums + up(most_results * 16);
  prepare.need_scratch(state.window_scratch + up(most_scratch) + 64);
  return prepare.step(std::move(state), macs);
}

}  // namespace sixfold::emulator
