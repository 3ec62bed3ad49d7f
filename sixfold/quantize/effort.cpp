#include "sixfold/quantize/effort.h"

#include <algorithm>

namespace sixfold {

double work_of(const Graph& graph) {
  double sum = 1;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op != Op::convolution && node.op != Op::linear) continue;
    const auto weights = static_cast<double>(numel(static_shape(graph.dims(node.input(1)))));
    const Shape out = static_shape(graph.dims(node.output()));
    const auto channels = static_cast<double>(node.op == Op::linear ? out.back() : out[1]);
    sum += weights * static_cast<double>(numel(out)) / std::max(channels, 1.0);
  }
  return sum;
}

double cost_of(const Graph& graph, double work) {
  for (const NodeId id : graph.order()) {
    work += 20000;
    for (const ValueId v : graph.node(id).outputs)
      work += 20.0 * static_cast<double>(numel(static_shape(graph.dims(v))));
  }
  return work;
}

size_t samples_for(double budget, double work, size_t least, size_t most) {
  return static_cast<size_t>(
      std::clamp(budget / work, static_cast<double>(least), static_cast<double>(most)));
}

}  // namespace sixfold
