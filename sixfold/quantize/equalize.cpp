#include "sixfold/quantize/equalize.h"

#include <algorithm>
#include <cmath>

namespace sixfold {
namespace {

constexpr float kMostFactor = 1e4f;

// A constant that only this node reads, as floats to change.
float* own_data(Graph& graph, NodeId node, size_t operand) {
  const ValueId v = graph.node(node).input(operand);
  const Tensor from = to_contiguous(graph.value(v).constant);
  std::byte* bytes = nullptr;
  Tensor copy = Tensor::allocate(DType::f32, from.shape, &bytes);
  std::copy_n(from.values<float>().data(), from.count(), reinterpret_cast<float*>(bytes));
  if (graph.value(v).users.size() == 1) {
    graph.value(v).constant = std::move(copy);
  } else {
    const ValueId fresh = graph.add_constant(graph.value(v).name, std::move(copy));
    graph.set_input(node, operand, fresh);
  }
  return reinterpret_cast<float*>(bytes);
}

bool is_plain_constant(const Graph& graph, ValueId v) {
  return v.valid() && graph.value(v).kind == ValueKind::constant && graph.dtype(v) == DType::f32 &&
         !graph.value(v).encoding;
}

// Convolutions and linear layers with constant weights, as [outputs][inputs][taps] by group.
struct Product {
  NodeId node;
  int64_t groups = 1, outputs = 0, inputs = 0, taps = 1;  // outputs and inputs: of a group

  static std::optional<Product> of(const Graph& graph, NodeId id) {
    const Node& node = graph.node(id);
    if (node.op != Op::convolution && node.op != Op::linear) return std::nullopt;
    if (!is_plain_constant(graph, node.input(1)) || node.attrs.text("activation") != "none")
      return std::nullopt;
    if (node.input(2).valid() && !is_plain_constant(graph, node.input(2))) return std::nullopt;
    if (node.input(3).valid() || node.input(4).valid()) return std::nullopt;
    if (node.op == Op::convolution && node.attrs.flag("transposed")) return std::nullopt;
    const Shape w = static_shape(graph.dims(node.input(1)));
    Product p{id};
    p.groups = node.op == Op::convolution ? node.attrs.integer("groups") : 1;
    p.outputs = w[0] / p.groups;
    p.inputs = w[1];
    p.taps = numel(w) / (w[0] * w[1]);
    return p;
  }
  // f(input channel of all, index into the weights)
  template <typename F>
  void for_inputs(const F& f) const {
    for (int64_t o = 0; o < groups * outputs; ++o)
      for (int64_t i = 0; i < inputs; ++i)
        for (int64_t t = 0; t < taps; ++t)
          f(static_cast<size_t>(o / outputs * inputs + i), static_cast<size_t>((o * inputs + i) * taps + t));
  }
  size_t input_channels() const { return static_cast<size_t>(groups * inputs); }
  size_t output_channels() const { return static_cast<size_t>(groups * outputs); }
};

std::vector<float> input_magnitudes(const Graph& graph, const Product& p) {
  const Tensor w = to_contiguous(*graph.constant(graph.node(p.node).input(1)));
  std::vector<float> out(p.input_channels(), 0.0f);
  p.for_inputs([&](size_t c, size_t i) { out[c] = std::max(out[c], std::fabs(w.values<float>()[i])); });
  return out;
}

std::vector<float> output_magnitudes(const Graph& graph, const Product& p) {
  const Tensor w = to_contiguous(*graph.constant(graph.node(p.node).input(1)));
  std::vector<float> out(p.output_channels(), 0.0f);
  const size_t width = static_cast<size_t>(w.count()) / out.size();
  for (size_t i = 0; i < static_cast<size_t>(w.count()); ++i)
    out[i / width] = std::max(out[i / width], std::fabs(w.values<float>()[i]));
  return out;
}

void multiply_inputs(Graph& graph, const Product& p, const std::vector<float>& by) {
  float* w = own_data(graph, p.node, 1);
  p.for_inputs([&](size_t c, size_t i) { w[i] *= by[c]; });
}

void divide_outputs(Graph& graph, const Product& p, const std::vector<float>& by) {
  float* w = own_data(graph, p.node, 1);
  const size_t width =
      static_cast<size_t>(numel(static_shape(graph.dims(graph.node(p.node).input(1))))) / by.size();
  for (size_t i = 0; i < width * by.size(); ++i) w[i] /= by[i / width];
  if (!graph.node(p.node).input(2).valid()) return;
  float* b = own_data(graph, p.node, 2);
  for (size_t c = 0; c < by.size(); ++c) b[c] /= by[c];
}

bool is_kept(const Graph& graph, ValueId v) {  // as an output or for the next run
  return std::any_of(graph.outputs.begin(), graph.outputs.end(),
                     [&](const Leaf& l) { return l.value == v; }) ||
         std::any_of(graph.mutations.begin(), graph.mutations.end(),
                     [&](const auto& m) { return m.next == v; });
}

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

float tame(float x) { return std::isfinite(x) && x > 0 ? std::clamp(x, 1 / kMostFactor, kMostFactor) : 1.0f; }

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
