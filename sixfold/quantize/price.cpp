#include "sixfold/quantize/price.h"

#include <algorithm>

#include "sixfold/ops/cost.h"
#include "sixfold/quantize/effort.h"
#include "sixfold/quantize/widen.h"

namespace sixfold {
namespace {

// A large HTP: products of 8 with 8 bits and bytes of memory in a microsecond. Only their ratios count.
constexpr double kMacsPerMicro = 16e6, kBytesPerMicro = 40e3;

constexpr double kMostTime = 1.25;    // of a model, predicted, of that with 8 bits
constexpr double kUnfeltMicros = 20;  // a fraction of what a call of the NPU takes, whatever the model is
// Of all rounding's noise, that 16 bits must take away to be tried: half is 3 dB. Tries of a large model are
// dear.
constexpr double kHalfOfNoise = 0.5, kMostNoise = 0.9;

// What a model takes, and what it takes with these nodes in 16 bits.
struct Predicted {
  double before = 0, after = 0;
};
Predicted predict(const Graph& graph, const Scheme& scheme, const std::set<uint32_t>& wide) {
  Scheme wider = scheme;
  wider.activation_bits = 16;
  Predicted out;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const double narrow = predicted_micros(graph, node, scheme);
    out.before += narrow;
    out.after += wide.contains(id.index) ? predicted_micros(graph, node, wider) : narrow;
  }
  return out;
}

}  // namespace

double predicted_micros(const Graph& graph, const Node& node, const Scheme& scheme) {
  const Cost cost = cost_of(graph, node);
  const int activation = scheme.computes_in_float() ? 16 : scheme.activation_bits;
  const int weight = scheme.weight_bits == 0 ? 16 : scheme.weight_bits;
  double elements = 0, constants = 0;
  const auto add = [&](ValueId v) {
    if (!v.valid() || !is_static(graph.dims(v))) return;
    (graph.constant(v) ? constants : elements) += static_cast<double>(numel(static_shape(graph.dims(v))));
  };
  for (const ValueId v : node.inputs) add(v);
  for (const ValueId v : node.outputs) add(v);
  const double bytes = elements * activation / 8 + constants * weight / 8;
  const double slower = scheme.computes_in_float() ? 4 : activation == 16 ? (weight == 16 ? 4 : 2) : 1;
  return std::max(static_cast<double>(cost.macs) * slower / kMacsPerMicro, bytes / kBytesPerMicro);
}

double predicted_convert_micros(const Graph& graph, ValueId value) {
  constexpr double kBytes = 1 + 2;
  return is_static(graph.dims(value))
             ? static_cast<double>(numel(static_shape(graph.dims(value)))) * kBytes / kBytesPerMicro
             : 0;
}

bool are_cheap(const Graph& graph, const Scheme& scheme, const std::set<uint32_t>& wide) {
  const Predicted micros = predict(graph, scheme, wide);
  return micros.after <= kMostTime * micros.before || micros.after - micros.before <= kUnfeltMicros;
}

double longer_with(const Graph& graph, const Graph& quantized, const Scheme& scheme,
                   const std::set<uint32_t>& wide) {
  const Predicted micros = predict(graph, scheme, wide);
  double more = micros.after - micros.before;
  for (const NodeId id : quantized.order())
    if (const Node& node = quantized.node(id); node.op == Op::convert)
      more += predicted_convert_micros(quantized, node.output());
  return micros.before > 0 ? more / micros.before : 0;
}

// What takes long may take a quarter longer; less is gained of others, whose weights are rounded as layers
// ask for, and what nobody feels is theirs.
std::set<uint32_t> find_worthwhile_nodes(const Graph& graph, const QuantizePlan& plan,
                                         const Observations& seen, const Scheme& scheme,
                                         const std::set<uint32_t>& wide) {
  Scheme wider = scheme;
  wider.activation_bits = 16;
  const WideCost cost{.node =
                          [&](const Node& node) {
                            return predicted_micros(graph, node, wider) -
                                   predicted_micros(graph, node, scheme);
                          },
                      .convert = [&](ValueId v) { return predicted_convert_micros(graph, v); }};
  const bool large = work_of(graph) >= kLargeWork;
  const double longer = large ? (kMostTime - 1) * predict(graph, scheme, {}).before : 0;
  return find_costly_nodes(graph, plan, seen, cost,
                           std::max({longer, wide_micros(graph, wide, cost), kUnfeltMicros}),
                           large ? kMostNoise : kHalfOfNoise);
}

}  // namespace sixfold
