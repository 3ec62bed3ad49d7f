#include "sixfold/quantize/settle_biases.h"

#include <cmath>

#include "sixfold/graph/precision.h"
#include "sixfold/quantize/plan.h"

namespace sixfold {
namespace {

constexpr int64_t kFewOutputs = 8;                // more have no steps in common
constexpr double kLeastPart = 0.75, kRoom = 1.1;  // of the range, and of what samples showed
constexpr int kTries = 256;
constexpr double kWorth = 0.8;  // of the squared error: more is not worth another grid

struct Layer {
  ValueId operand;
  Tensor bias;                // floats
  std::vector<double> units;  // of each bias, for steps of 1 of the operand
};

std::optional<Layer> read(const Graph& real, const Graph& g, const Node& node) {
  if ((node.op != Op::convolution && node.op != Op::linear) || node.inputs.size() < 3) return {};
  const Tensor *weight = g.constant(node.input(1)), *bias = g.constant(node.input(2));
  const auto &x = g.value(node.input(0)).encoding, &w = g.value(node.input(1)).encoding;
  if (!weight || !bias || !x || !w || !is_float(weight->dtype) || !is_float(bias->dtype)) return {};
  if (g.value(node.input(2)).encoding || bias->count() > kFewOutputs || w->block > 0) return {};
  if (!is_wide(*x) || x->axis >= 0 || x->quant_min != 0 || x->zero_points[0] != 0) return {};
  // A grid that nobody else has: others would see another number in the same integers.
  const Value& value = g.value(node.input(0));
  const Node* producer = g.producer(value.id);
  if (!producer || quantize_rule(*producer) != QuantizeRule::compute || value.users.size() != 1) return {};
  if (value.id.index >= real.value_count() || real.value(value.id).encoding) return {};
  for (const Leaf& leaf : g.outputs)
    if (leaf.value == value.id) return {};
  for (const ValueId v : producer->inputs)  // whose steps follow the sum's
    if (v.valid() && g.constant(v)) return {};
  Layer out{value.id, to_contiguous(*bias), {}};
  for (int64_t c = 0; c < bias->count(); ++c)
    out.units.push_back(static_cast<double>(cut_of_sums(*x, *w)) *
                        w->scales[w->axis < 0 ? 0 : static_cast<size_t>(c) % w->scales.size()]);
  return out;
}

// Results lie in the middle of what is cut, so a bias should be a whole number of units and a half.
double squared_error(const Layer& layer, double scale) {
  double sum = 0;
  for (size_t c = 0; c < layer.units.size(); ++c) {
    const double unit = layer.units[c] * scale;
    const double units = element_real(layer.bias, static_cast<int64_t>(c)) / unit + 0.5;
    const double off = (units - std::nearbyint(units)) * unit;
    sum += off * off + unit * unit / 12;
  }
  return sum;
}

}  // namespace

void settle_biases(const Graph& real, const Observations& seen, Graph& quantized) {
  for (const NodeId id : quantized.order()) {
    const auto layer = read(real, quantized, quantized.node(id));
    if (!layer || layer->operand.index >= seen.values.size()) continue;
    Encoding& grid = *quantized.value(layer->operand).encoding;
    const double scale = grid.scales[0], most = scale * static_cast<double>(grid.quant_max);
    const double least = std::max(kLeastPart, kRoom * seen.values[layer->operand.index].max / most);
    double best = scale, error = kWorth * squared_error(*layer, scale);
    for (int i = 1; i <= kTries; ++i) {
      const double finer = scale * (1 - (1 - kLeastPart) * i / kTries);
      if (finer < least * scale) break;
      if (const double e = squared_error(*layer, finer); e < error) error = e, best = finer;
    }
    grid.scales[0] = static_cast<float>(best);
  }
}

}  // namespace sixfold
