#include "sixfold/quantize/equalize.h"

#include <algorithm>
#include <cmath>

#include "sixfold/quantize/product.h"

namespace sixfold {
namespace {

// The products that read v, or what a relu makes of it; none when anybody else does.
std::vector<Product> readers(const Graph& graph, ValueId v, ValueId* seen) {
  if (is_kept(graph, v)) return {};
  const Value* value = &graph.value(v);
  if (value->users.size() == 1 && graph.node(value->users[0]).op == Op::relu) {
    const ValueId next = graph.node(value->users[0]).output();
    if (is_kept(graph, next)) return {};
    value = &graph.value(next);
  }
  *seen = value->id;
  std::vector<Product> out;
  for (const NodeId user : value->users) {
    const auto p = Product::of(graph, user);
    if (!p || graph.node(user).input(0) != value->id || graph.node(user).input(1) == value->id) return {};
    if (std::any_of(out.begin(), out.end(), [&](const Product& o) { return o.node == user; })) return {};
    out.push_back(*p);
  }
  return out;
}

}  // namespace

size_t equalize_weights(Graph& graph) {
  size_t pairs = 0;
  for (const NodeId id : graph.order()) {
    const auto first = Product::of(graph, id);
    if (!first || graph.node(id).op != Op::convolution) continue;
    ValueId between;
    const std::vector<Product> next = readers(graph, graph.node(id).output(), &between);
    if (next.size() != 1 || next[0].input_channels() != first->output_channels() ||
        graph.node(next[0].node).op != Op::convolution)
      continue;
    const std::vector<float> r1 = output_magnitudes(graph, *first), r2 = input_magnitudes(graph, next[0]);
    std::vector<float> by(r1.size());
    for (size_t c = 0; c < by.size(); ++c) by[c] = tame(std::sqrt(r1[c] / r2[c]));
    divide_outputs(graph, *first, by);
    multiply_inputs(graph, next[0], by);
    ++pairs;
  }
  return pairs;
}

size_t smooth_activations(Graph& graph, const Observations& seen, float alpha) {
  size_t done = 0;
  for (const NodeId id : graph.order()) {
    const Op op = graph.node(id).op;
    const bool norm = op == Op::layer_norm || op == Op::rms_norm;
    const auto product = Product::of(graph, id);
    if (!norm && !product) continue;
    if (norm && (!is_plain_constant(graph, graph.node(id).input(1)) ||
                 (graph.node(id).input(2).valid() && !is_plain_constant(graph, graph.node(id).input(2)))))
      continue;
    ValueId between;
    const std::vector<Product> next = readers(graph, graph.node(id).output(), &between);
    if (next.empty() || between.index >= seen.values.size()) continue;
    const std::vector<Range>& channels = seen.values[between.index].channels;
    const bool fits = std::all_of(next.begin(), next.end(),
                                  [&](const Product& p) { return p.input_channels() == channels.size(); });
    if (channels.empty() || !fits) continue;
    // Channels were seen along the axis that products of this rank read (channel_axis).
    const bool image = graph.dims(between).size() >= 4;
    const auto other_axis = [&](NodeId n) { return (graph.node(n).op == Op::convolution) != image; };
    if (std::any_of(next.begin(), next.end(), [&](const Product& p) { return other_axis(p.node); }) ||
        (norm ? image : other_axis(id)))
      continue;
    if (norm &&
        numel(static_shape(graph.dims(graph.node(id).input(1)))) != static_cast<int64_t>(channels.size()))
      continue;
    if (product && product->output_channels() != channels.size()) continue;
    std::vector<float> weight(channels.size(), 0.0f), by(channels.size());
    for (const Product& p : next) {
      const std::vector<float> m = input_magnitudes(graph, p);
      for (size_t c = 0; c < m.size(); ++c) weight[c] = std::max(weight[c], m[c]);
    }
    for (size_t c = 0; c < by.size(); ++c) {
      const float most = std::max(std::fabs(channels[c].min), std::fabs(channels[c].max));
      by[c] = tame(std::pow(most, alpha) / std::pow(weight[c], 1 - alpha));
    }
    if (norm) {
      for (size_t operand = 1; operand < 3; ++operand) {
        if (!graph.node(id).input(operand).valid()) continue;
        float* w = own_data(graph, id, operand);
        for (size_t c = 0; c < by.size(); ++c) w[c] /= by[c];
      }
    } else {
      divide_outputs(graph, *product, by);
    }
    for (const Product& p : next) multiply_inputs(graph, p, by);
    ++done;
  }
  return done;
}

}  // namespace sixfold
