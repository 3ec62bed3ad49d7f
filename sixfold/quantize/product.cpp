#include "sixfold/quantize/product.h"

#include <algorithm>
#include <cmath>

namespace sixfold {
namespace {

constexpr float kMostFactor = 1e4f;

// Lanes, so that the compiler uses vectors.
void take_largest(const float* x, size_t n, float* most) {
  constexpr size_t kLanes = 8;
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (size_t k = i; k < i + kLanes; ++k) most[k] = std::max(most[k], std::fabs(x[k]));
  for (; i < n; ++i) most[i] = std::max(most[i], std::fabs(x[i]));
}

}  // namespace

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

std::optional<Product> Product::of(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (node.op != Op::convolution && node.op != Op::linear) return std::nullopt;
  if (!is_plain_constant(graph, node.input(1)) || node.attrs.text("activation") != "none")
    return std::nullopt;
  if (node.input(2).valid() && !is_plain_constant(graph, node.input(2))) return std::nullopt;
  if (node.input(3).valid() || node.input(4).valid()) return std::nullopt;
  const Shape w = static_shape(graph.dims(node.input(1)));
  Product p{id};
  p.groups = node.op == Op::convolution ? node.attrs.integer("groups") : 1;
  p.transposed = node.op == Op::convolution && node.attrs.flag("transposed");
  p.outputs = p.transposed ? w[1] : w[0] / p.groups;
  p.inputs = p.transposed ? w[0] / p.groups : w[1];
  p.taps = numel(w) / (w[0] * w[1]);
  return p;
}

std::vector<float> input_magnitudes(const Graph& graph, const Product& p) {
  const Tensor w = to_contiguous(*graph.constant(graph.node(p.node).input(1)));
  const auto all = w.values<float>();
  std::vector<float> out(p.input_channels(), 0.0f);
  if (p.groups == 1 && p.taps == 1 && !p.transposed) {
    const auto width = static_cast<size_t>(p.inputs);
    for (size_t at = 0; at < all.size(); at += width) take_largest(&all[at], width, out.data());
    return out;
  }
  p.for_weights([&](size_t in, size_t, size_t i) { out[in] = std::max(out[in], std::fabs(all[i])); });
  return out;
}

std::vector<float> output_magnitudes(const Graph& graph, const Product& p) {
  const Tensor w = to_contiguous(*graph.constant(graph.node(p.node).input(1)));
  const auto all = w.values<float>();
  std::vector<float> out(p.output_channels(), 0.0f);
  p.for_weights([&](size_t, size_t to, size_t i) { out[to] = std::max(out[to], std::fabs(all[i])); });
  return out;
}

void multiply_inputs(Graph& graph, const Product& p, const std::vector<float>& by) {
  float* w = own_data(graph, p.node, 1);
  p.for_weights([&](size_t in, size_t, size_t i) { w[i] *= by[in]; });
}

void divide_outputs(Graph& graph, const Product& p, const std::vector<float>& by) {
  float* w = own_data(graph, p.node, 1);
  p.for_weights([&](size_t, size_t to, size_t i) { w[i] /= by[to]; });
  if (!graph.node(p.node).input(2).valid()) return;
  float* b = own_data(graph, p.node, 2);
  for (size_t c = 0; c < by.size(); ++c) b[c] /= by[c];
}

bool is_kept(const Graph& graph, ValueId v) {
  return std::any_of(graph.outputs.begin(), graph.outputs.end(),
                     [&](const Leaf& l) { return l.value == v; }) ||
         std::any_of(graph.mutations.begin(), graph.mutations.end(),
                     [&](const auto& m) { return m.next == v; });
}

float tame(float x) { return std::isfinite(x) && x > 0 ? std::clamp(x, 1 / kMostFactor, kMostFactor) : 1.0f; }

}  // namespace sixfold
