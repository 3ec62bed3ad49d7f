// Convolutions on the emulator. docs/emulator.md says how fixed-point results are rounded.
#include "sixfold/ops/conv/emulate.h"

#include <climits>
#include <cmath>

#include "sixfold/emulator/late.h"
#include "sixfold/emulator/product.h"

namespace sixfold::emulator {
namespace {

struct Fixed {
  std::vector<FixedProduct> phases;
  void run(const Run& run) const {
    for (const FixedProduct& p : phases) p.run(run.ins[0], run.outs[0], run.scratch, run.pool);
  }
  void absorb(Clamp clamp) {
    for (FixedProduct& p : phases) p.absorb(clamp);
  }
};

// Shifts of all channels, where they are more than kShiftedTogether: the vector unit's filter of 3x3 for 16
// bits takes those that differ by so many bits.
constexpr int kMostApart = 6;

// Filters of stride 2 or 4 for each channel are computed by the vector unit, if 32 bits hold its shifts, all
// else by the matrix unit.
cpu::Rounding rounding_of(const ConvShape& s, const OpView& op) {
  const cpu::QuantWindow& w = s.window;
  const bool square = w.height == w.width && w.height <= 2;
  const bool strided = w.stride_y == w.stride_x &&
                       (w.stride_y == 2 ? !square : w.stride_y == 4 && w.height >= 4 && w.width >= 4);
  constexpr int64_t kLong = 64;
  const bool is_long = qnn::size_of(op.in(0).dtype) == 1 && std::max(w.height, w.width) >= kLong;
  bool vector = !s.transposed && (w.depthwise() ? w.taps() <= 128 && strided : is_long);
  const double scale =
      static_cast<double>(op.in(0).encoding().scale) / static_cast<double>(op.out().encoding().scale);
  int least = INT_MAX, most = INT_MIN;
  for (int64_t o = 0; vector && o < w.out_channels; ++o) {
    const double factor =
        static_cast<double>(op.in(1).channel_encoding(static_cast<size_t>(o)).scale) * scale;
    vector = factor >= 0x1p-16;
    const int bits = std::ilogb(factor);
    least = std::min(least, bits), most = std::max(most, bits);
  }
  if (qnn::size_of(op.in(0).dtype) == 2 && w.height == 3 && w.width == 3 && w.stride_x == 2 &&
      w.out_channels > kShiftedTogether && most - least > kMostApart)
    vector = false;
  return vector ? cpu::Rounding::vector : matrix_rounding(op.in(0));
}

Result<Step> prepare_fixed(const OpView& op, const ConvShape& s, Prepare& prepare) {
  const ProductSpec spec{op.in(0), op.in(1), op.in(2), op.out()};
  const TensorDef& y = op.out();
  const auto element = static_cast<int64_t>(qnn::size_of(y.dtype));
  const int64_t pixel = y.dims[3] * element, row = pixel * y.dims[2];
  const std::vector<ConvPhase> phases = phases_of(s);
  Fixed state;
  uint64_t macs = 0;
  for (const ConvPhase& phase : phases) {
    const cpu::QuantWindow& w = phase.window;
    FixedProduct& p = state.phases.emplace_back();
    p.window = w;
    p.offset = phase.out_y * row + phase.out_x * pixel;
    p.steps = {nullptr, pixel * phase.every_x, row * phase.every_y, row * y.dims[1]};
    macs += static_cast<uint64_t>(w.rows() * w.out_channels) * static_cast<uint64_t>(w.taps() * w.inputs());
  }
  SF_TRY(prepare_products(
      spec, state.phases, rounding_of(s, op),
      [&](size_t i, int64_t tap, int64_t input, int64_t output) {
        return phases[i].weight_index(s, tap, input, output);
      },
      prepare));
  return prepare.step(std::move(state), macs);
}

// The matrix unit works on 32 points by 32 output channels with all of their inputs, and these must be in the
// device's own memory at once; strides become channels before. The library says so when it prepares the
// graph (SM8650, halves: nothing was found that does not fit in 8 bits).
Status check_memory(const OpView& op, const ConvShape& s, const DeviceModel& device) {
  const cpu::QuantWindow& w = s.window;
  if (!op.in(0).is_float() || s.transposed || w.groups > 1 || device.vtcm_mb == 0) return {};
  constexpr int64_t kTile = 32 * sizeof(Half), kOther = 4096;
  const int64_t inputs = w.inputs() * w.stride_y * w.stride_x;
  const int64_t taps = ((w.height + w.stride_y - 1) / w.stride_y) * ((w.width + w.stride_x - 1) / w.stride_x);
  const int64_t bytes = inputs * kTile * (taps + 1) + kOther, most = int64_t{device.vtcm_mb} << 20;
  if (bytes <= most) return {};
  return unsupported("a tile of it needs ", bytes, " bytes of VTCM, and the device has ", most);
}

// Halves times integers: filters of one tap alone.
Status check_integer_weights(const OpView& op, const ConvShape& s) {
  if (!op.in(1).is_per_channel()) return unsupported("in[1] needs a scale for each channel beside floats");
  if (op.in(1).dims[0] != 1 || op.in(1).dims[1] != 1)
    return unsupported("in[1].shape[0] and in[1].shape[1] must be [1,1] respectively");
  if (s.window.groups != 1) return unsupported("integers beside floats, and group is ", s.window.groups);
  if (op.in(0).dims[3] % 4 != 0)
    return unsupported("integers beside floats need input channels that are a multiple of 4, there are ",
                       op.in(0).dims[3]);
  return {};
}

}  // namespace

Status check_conv2d(const OpView& op, const DeviceModel& device) {
  SF_ASSIGN(const ConvShape s, read_conv(op));
  SF_TRY(check_memory(op, s, device));
  if (op.in(0).is_float() != op.out().is_float()) return unsupported("in[0] and out[0] are of two kinds");
  if (op.in(0).is_float() && !op.in(1).is_float()) SF_TRY(check_integer_weights(op, s));
  return {};
}

Result<Step> prepare_conv2d(const OpView& op, Prepare& prepare) {
  SF_ASSIGN(const ConvShape s, read_conv(op));
  if (has_computed_weights(op)) return prepare_late(op, prepare_conv2d, prepare);
  if (!op.in(0).is_float() && qnn::size_of(op.in(1).dtype) == 2) return prepare_wide_conv(op, s, prepare);
  if (is_points(op, s)) return prepare_points(op, s, prepare);
  return op.in(0).is_float() ? prepare_float_conv(op, s, prepare) : prepare_fixed(op, s, prepare);
}

}  // namespace sixfold::emulator
