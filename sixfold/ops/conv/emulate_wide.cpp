// Convolutions by 16-bit weights: two bytes each, 256 high + low, the low one signed. Activations are one or
// two bytes as well; the sums of their products are joined and rounded as those of matrices are.
#include "sixfold/cpu/broadcast.h"
#include "sixfold/cpu/quant_matrix.h"
#include "sixfold/emulator/numbers.h"
#include "sixfold/emulator/product.h"
#include "sixfold/ops/conv/emulate.h"

namespace sixfold::emulator {
namespace {

struct WideConv {
  cpu::QuantWindow window;
  const std::byte *high = nullptr, *low = nullptr;
  cpu::QuantInput input;
  cpu::QuantOutput output;
  size_t sums = 0, window_scratch = 0;  // places in scratch; the planes of x are first

  void absorb(Clamp clamp) { cut(output, clamp); }
  int64_t results() const { return window.rows() * window.out_channels; }

  void run(const Run& run) const {
    const int64_t n = window.batch * window.in_height * window.in_width * window.in_channels;
    auto* bytes = reinterpret_cast<uint8_t*>(run.scratch);
    run.pool.for_ranges(n, cpu::kElementwiseGrain, [&](int64_t begin, int64_t end) {
      if (input.wide)
        return cpu::split_bytes(run.in<uint16_t>(0) + begin, end - begin, input.flip, bytes + begin,
                                bytes + n + begin);
      const uint8_t flip = input.flip ? 0x80 : 0;
      for (int64_t i = begin; i < end; ++i) bytes[i] = run.in<uint8_t>(0)[i] ^ flip;
    });
    auto* s = reinterpret_cast<int32_t*>(run.scratch + sums);
    cpu::QuantOutput none;
    none.rounding = cpu::Rounding::none;
    const int64_t pixel = window.out_channels * 4, row = pixel * window.out_width;
    const auto product = [&](int64_t plane, const std::byte* weights, int64_t to) {
      cpu::QuantInput in;
      in.data = reinterpret_cast<const std::byte*>(bytes + plane * n);
      in.zero_point = plane == 0 ? input.zero_point & 255 : input.zero_point >> 8;
      const cpu::QuantResult result{reinterpret_cast<std::byte*>(s + to * results()), pixel, row,
                                    row * window.out_height};
      run_quant(window, weights, in, none, result, run.scratch + window_scratch, run.pool);
    };
    product(0, high, 0), product(0, low, 1);
    if (input.wide) product(1, high, 2), product(1, low, 3);
    const auto* channels =
        reinterpret_cast<const cpu::QuantChannels*>(high + quant_layout(window).weight_bytes);
    const int64_t element = output.wide ? 2 : 1;
    run.pool.for_ranges(window.rows(), std::max<int64_t>(1, 8192 / window.out_channels),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t r = begin; r < end; ++r) {
                            const int32_t* sum = s + r * window.out_channels;
                            finish_pairs(sum, sum + results(), input.wide ? sum + 2 * results() : nullptr,
                                         sum + 3 * results(), window.out_channels, channels, output,
                                         run.outs[0] + r * window.out_channels * element);
                          }
                        });
  }
};

}  // namespace

Result<Step> prepare_wide_conv(const OpView& op, const ConvShape& s, Prepare& prepare) {
  const TensorDef &x = op.in(0), &w = op.in(1), &b = op.in(2), &y = op.out();
  const std::vector<ConvPhase> phases = phases_of(s);
  const cpu::QuantWindow& window = phases.front().window;
  if (phases.size() != 1 ||
      (window.groups > 1 && !window.depthwise() && window.outputs() % cpu::kQuantBlock != 0))
    return unsupported("the emulator has no ", op.type, " of these strides or groups by 16-bit weights");
  if (!quant_fits(window)) return unsupported("the emulator has no filter of ", window.taps(), " taps");
  constexpr int64_t kMostProducts = 16384;  // whose sums are added in 32 bits
  if (window.taps() * window.inputs() > kMostProducts)
    return unsupported("the emulator has no sums of ", window.taps() * window.inputs(),
                       " products by 16-bit weights");
  WideConv state{window};
  state.input = quant_input(x);
  state.output = quant_output(y, cpu::Rounding::matrix16);
  state.output.lefts = true;
  const FixedWeights weights(w, window.inputs());
  const int64_t bytes = quant_layout(window).bytes;
  const bool wide = state.input.wide;
  for (int64_t o = 0; o < window.out_channels; ++o) {
    cpu::QuantChannels one;
    const double factor = static_cast<double>(x.encoding().scale) * weights.scale(o) / y.encoding().scale;
    if (!cpu::set_factor(one, 0, cpu::Rounding::matrix16, factor * (wide ? 256 : 1)))
      return unsupported("in[0]'s scale times in[1]'s, channel ", o, ", is ", factor, " of out[0]'s");
  }
  SF_ASSIGN(state.high, prepare.pack(static_cast<size_t>(2 * bytes), [&](std::span<std::byte> out) {
    const auto number = [&](int64_t tap, int64_t input, int64_t output) {
      const int64_t at = phases.front().weight_index(s, tap, input, output);
      return at < 0 ? 0 : std::clamp<int64_t>(weights.at(at, output, input), -32768, cpu::kLargestPair);
    };
    const auto top = [](int64_t v) { return (v + 128) >> 8; };
    pack_quant(
        window, [&](int64_t t, int64_t i, int64_t o) { return static_cast<int32_t>(top(number(t, i, o))); },
        out.data());
    pack_quant(
        window,
        [&](int64_t t, int64_t i, int64_t o) {
          const int64_t v = number(t, i, o);
          return static_cast<int32_t>(v - 256 * top(v));
        },
        out.data() + bytes);
    cpu::QuantChannels* channels = quant_channels(window, out.data());
    const cpu::QuantChannels* low = quant_channels(window, out.data() + bytes);
    for (int64_t o = 0; o < window.out_channels; ++o) {
      const auto [block, i] = quant_place(window, o);
      const double unit = static_cast<double>(x.encoding().scale) * weights.scale(o);
      const int64_t sum = int64_t{channels[block].sum[i]} * 256 + low[block].sum[i];
      const int64_t part = state.input.zero_point * sum, cut = wide ? 65536 : 256;
      const int64_t bias = bias_at(b, o, unit, w.is_per_channel()) / cut - ((part + cut / 2) >> (wide ? 16 : 8));
      channels[block].bias[i] = static_cast<int32_t>(std::clamp<int64_t>(bias, INT32_MIN, INT32_MAX));
      cpu::set_factor(channels[block], i, cpu::Rounding::matrix16,
                      unit / static_cast<double>(y.encoding().scale) * (wide ? 256 : 1));
    }
  }));
  state.low = state.high + bytes;
  const auto up = [](int64_t n) { return static_cast<size_t>((n + 63) / 64 * 64); };
  state.sums = up(x.count() * 2);
  state.window_scratch = state.sums + up(state.results() * 16);
  prepare.need_scratch(state.window_scratch + up(quant_scratch(window, {})) + 64);
  const auto macs = static_cast<uint64_t>(window.rows() * window.out_channels) *
                    static_cast<uint64_t>(window.taps() * window.inputs());
  return prepare.step(std::move(state), macs);
}

}  // namespace sixfold::emulator
