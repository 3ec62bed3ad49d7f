#include "sixfold/quantize/fit_device.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "sixfold/graph/precision.h"
#include "sixfold/quantize/bias.h"

namespace sixfold {
namespace {

// The same range, or as much more as the steps grow.
Encoding with_scale(const Encoding& grid, double scale) {
  Encoding e = grid;
  const double low = (static_cast<double>(grid.quant_min) - grid.zero_points[0]) * grid.scales[0];
  e.scales[0] = static_cast<float>(scale);
  const double zero = static_cast<double>(grid.quant_min) + std::nearbyint(-low / scale);
  e.zero_points[0] = static_cast<int32_t>(
      std::clamp(zero, static_cast<double>(grid.quant_min), static_cast<double>(grid.quant_max)));
  return e;
}

// By how much offsets grew when they were rounded, by channel, and which axis of a value has them.
struct Shift {
  const std::vector<double>& by;
  size_t axis;
};

// What the channels' growth makes of each result of a product with constant weights.
std::optional<std::vector<double>> shift_of_results(const Graph& graph, const Node& node, const Shift& s) {
  const Tensor* weight = graph.constant(node.input(1));
  const ValueId bias = node.input(2);
  if (!weight || weight->dtype != DType::f32) return {};
  if (bias.valid() &&
      (!graph.constant(bias) || graph.dtype(bias) != DType::f32 || graph.value(bias).encoding))
    return {};
  const Tensor w = to_contiguous(*weight);
  const size_t rank = graph.dims(node.input(0)).size();
  if (node.op == Op::linear) {
    if (s.axis + 1 != rank) return {};
  } else {
    // Where a filter reaches beyond the border, fewer taps count than a bias could take back.
    bool inside = true;
    for (const char* name : {"padding", "padding_end"})
      for (const int64_t p : node.attrs.ints(name)) inside = inside && p == 0;
    if (s.axis != 1 || !inside || node.attrs.flag("transposed") || node.attrs.integer("groups") != 1)
      return {};
  }
  if (w.shape.size() < 2 || w.shape[1] != static_cast<int64_t>(s.by.size())) return {};
  const auto outputs = static_cast<size_t>(w.shape[0]), inputs = s.by.size();
  const size_t taps = outputs == 0 ? 0 : static_cast<size_t>(w.count()) / (outputs * inputs);
  const auto all = w.values<float>();
  std::vector<double> out(outputs, 0.0);
  for (size_t o = 0; o < outputs; ++o)
    for (size_t i = 0; i < inputs; ++i)
      for (size_t t = 0; t < taps; ++t)
        out[o] -= s.by[i] * static_cast<double>(all[(o * inputs + i) * taps + t]);
  return out;
}

void take_back(Graph& graph, ValueId v, const Shift& s) {
  for (const NodeId id : std::vector<NodeId>(graph.value(v).users)) {
    const Node& node = graph.node(id);
    if (node.inputs.empty() || node.input(0) != v) continue;
    switch (node.op) {
      case Op::linear:
      case Op::convolution:
        if (auto shift = shift_of_results(graph, node, s)) {
          const BiasCorrection correction{.node = id, .shift = std::move(*shift)};
          correct_biases(graph, {&correction, 1});
        }
        break;
      case Op::permute: {
        const Shape order = node.attrs.ints("dims");
        const auto at = std::find(order.begin(), order.end(), static_cast<int64_t>(s.axis));
        if (at != order.end())
          take_back(graph, node.output(), {s.by, static_cast<size_t>(at - order.begin())});
        break;
      }
      case Op::reshape: {
        const auto &from = graph.dims(v), &to = graph.dims(node.output());
        if (s.axis + 1 == from.size() && !to.empty() && to.back() == from.back())
          take_back(graph, node.output(), {s.by, to.size() - 1});
        break;
      }
      case Op::convert:
        take_back(graph, node.output(), s);
        break;
      default:
        break;
    }
  }
}

}  // namespace

Encoding fit_softmax_result(const Encoding& grid) {
  const double parts = static_cast<double>(grid.scales[0]) * 65536, cut = std::floor(parts);
  // What is cut of 1/255 moves nothing, and there the highest number is 1 to the last bit.
  constexpr double kUnfelt = 1.0 / 64;  // of a step, at the highest number
  if (cut >= 1 && (parts - cut) / cut * static_cast<double>(grid.quant_max) <= kUnfelt) return grid;
  return with_scale(grid, std::max(std::ceil(parts), 1.0) / 65536);
}

Encoding fit_softmax_operand(const Encoding& grid) {
  int exponent = 0;
  const double mantissa = std::frexp(static_cast<double>(grid.scales[0]) * std::numbers::log2e, &exponent);
  // A little above, since it is cut.
  const double whole = std::ceil(mantissa * 256 - 1e-3) * (1 + 0x1p-20);
  return with_scale(grid, std::ldexp(whole, exponent - 8) / std::numbers::log2e);
}

Encoding fit_log_result(const Encoding& grid) {
  return grid.scales[0] >= kFinestLog ? grid : with_scale(grid, static_cast<double>(kFinestLog));
}

Encoding fit_arc_operand(const Encoding& grid) {
  const auto scale = static_cast<double>(grid.scales[0]);
  const double low = (static_cast<double>(grid.quant_min) - grid.zero_points[0]) * scale;
  const double high = (static_cast<double>(grid.quant_max) - grid.zero_points[0]) * scale;
  const bool wide = grid.quant_max - grid.quant_min > 255;
  const double steps = std::min(std::floor(1 / scale), wide ? 32767.0 : 127.0);  // from 0 to 1
  if ((low >= -1 && high <= 1) || steps < 1) return grid;
  // A little below 1, since that may be rounded up: of 16 bits the device's numbers have no more themselves.
  Encoding e = with_scale(grid, 1 / (steps + (wide ? 0.4 : 1e-4)));
  e.zero_points[0] =
      std::min(e.zero_points[0], static_cast<int32_t>(grid.quant_min + static_cast<int64_t>(steps)));
  return e;
}

Encoding fit_addend(const Encoding& grid, const Encoding& sum) {
  constexpr int kMostHalves = 6;
  double scale = sum.scales[0];
  const auto least = static_cast<double>(grid.scales[0]);
  for (int i = 0; i < kMostHalves && scale / 2 >= least; ++i) scale /= 2;
  while (scale < least) scale *= 2;
  // Zeros are another op to the device: what is less than half a step stays on its own grid.
  const double most = least * static_cast<double>(grid.quant_max - grid.quant_min);
  return most < scale ? grid : with_scale(grid, scale);
}

void fit_norm_offsets(Graph& quantized) {
  for (const NodeId id : quantized.order()) {
    const Node& node = quantized.node(id);
    if (node.op != Op::layer_norm || computes_in_float(node) || !node.input(2).valid()) continue;
    const Tensor* offset = quantized.constant(node.input(2));
    const auto& grid = quantized.value(node.output()).encoding;
    if (!offset || offset->dtype != DType::f32 || quantized.value(node.input(2)).encoding || !grid ||
        grid->axis >= 0)
      continue;
    const Tensor before = to_contiguous(*offset);
    const auto b = before.values<float>();
    const auto step = static_cast<double>(grid->scales[0]);
    std::vector<double> grown(b.size());
    std::byte* bytes = nullptr;
    Tensor after = Tensor::allocate(DType::f32, before.shape, &bytes);
    auto* to = reinterpret_cast<float*>(bytes);
    for (size_t i = 0; i < b.size(); ++i) {
      to[i] = static_cast<float>(std::round(static_cast<double>(b[i]) / step) * step);
      grown[i] = static_cast<double>(to[i]) - static_cast<double>(b[i]);
    }
    const ValueId y = node.output();
    const bool one_axis = node.attrs.integer("axes") == 1;
    const size_t rank = quantized.dims(y).size();
    quantized.set_input(id, 2, quantized.add_constant(quantized.value(node.input(2)).name, std::move(after)));
    if (one_axis) take_back(quantized, y, {grown, rank - 1});
  }
}

}  // namespace sixfold
