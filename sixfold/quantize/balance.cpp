#include "sixfold/quantize/balance.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sixfold/quantize/product.h"

namespace sixfold {
namespace {

constexpr float kLeastFactor = 1.0f / 256;  // what a weight can lose and still have a step or two

class Classes {
 public:
  Classes(const Graph& graph, const Observations& seen);

  // Of every channel of v, or empty: v has none that could be divided.
  std::vector<float> factors(ValueId v) const;
  void choose(float alpha);
  double imbalance() const;
  size_t divided() const;

 private:
  static constexpr size_t kNone = SIZE_MAX;

  size_t channels(ValueId v) const { return has(v) ? static_cast<size_t>(graph_.dims(v)[1].value()) : 0; }
  bool has(ValueId v) const { return v.valid() && first_[v.index] != kNone; }
  size_t slot(ValueId v, size_t channel) const { return first_[v.index] + channel; }
  size_t root(size_t i) const {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(size_t a, size_t b) { parent_[root(a)] = root(b); }
  void join_all(ValueId a, ValueId b) {
    for (size_t c = 0; c < channels(a); ++c) join(slot(a, c), slot(b, c));
  }
  void fix(ValueId v) {
    for (size_t c = 0; c < channels(v); ++c) fixed_[slot(v, c)] = true;
  }
  void look_at(const Node& node);
  bool keeps_factors(const Node& node);
  bool join_sum(const Node& node);
  bool join_gated(const Node& node);
  bool join_concat(const Node& node);
  bool join_slice(const Node& node);
  bool join_pad(const Node& node);

  const Graph& graph_;
  std::vector<size_t> first_;           // by value: its first channel
  mutable std::vector<size_t> parent_;  // by channel of a value
  std::vector<bool> fixed_;
  // Of a class: the most that a channel is of its tensor's largest, and its weights of their layer's.
  std::vector<float> activation_, weight_;
  std::vector<float> factor_;  // 1 until one is chosen, and where the class is fixed
};

Classes::Classes(const Graph& graph, const Observations& seen) : graph_(graph) {
  first_.assign(graph.value_count(), kNone);
  size_t count = 0;
  for (const Value& v : graph.values()) {
    if (v.kind == ValueKind::constant || v.type.dtype != DType::f32 || v.type.rank() != 4 ||
        !is_static(v.type.dims))
      continue;
    first_[v.id.index] = count;
    count += static_cast<size_t>(v.type.dims[1].value());
  }
  parent_.resize(count);
  std::iota(parent_.begin(), parent_.end(), size_t{0});
  fixed_.assign(count, false);
  for (const Value& v : graph.values())
    if (has(v.id) && (is_kept(graph, v.id) || v.encoding || v.kind != ValueKind::node)) fix(v.id);
  for (const NodeId id : graph.order()) look_at(graph.node(id));

  std::vector<bool> fixed(count, false);
  activation_.assign(count, 0);
  weight_.assign(count, 0);
  factor_.assign(count, 1);
  for (size_t i = 0; i < count; ++i)
    if (fixed_[i]) fixed[root(i)] = true;
  for (const Value& v : graph.values()) {
    if (!has(v.id)) continue;
    const size_t n = channels(v.id);
    const auto most = [](const Range& r) { return std::max(std::fabs(r.min), std::fabs(r.max)); };
    const bool known = v.id.index < seen.values.size() && seen.values[v.id.index].channels.size() == n;
    float all = 0;
    if (known)
      for (const Range& r : seen.values[v.id.index].channels) all = std::max(all, most(r));
    for (size_t c = 0; c < n; ++c) {
      const size_t k = root(slot(v.id, c));
      if (!std::isfinite(all)) fixed[k] = true;
      // What a product keeps to itself nobody saw; what its relu gives is of the same class.
      if (known && all > 0)
        activation_[k] = std::max(activation_[k], most(seen.values[v.id.index].channels[c]) / all);
    }
  }
  for (const NodeId id : graph.order()) {
    const auto p = Product::of(graph, id);
    const ValueId x = graph.node(id).input(0);
    if (!p || !has(x) || p->input_channels() != channels(x)) continue;
    const std::vector<float> m = input_magnitudes(graph, *p);
    const float all = *std::max_element(m.begin(), m.end());
    for (size_t c = 0; c < m.size() && all > 0; ++c) {
      float& w = weight_[root(slot(x, c))];
      w = std::max(w, m[c] / all);
    }
  }
  for (size_t i = 0; i < count; ++i) fixed_[i] = fixed[root(i)];
}

void Classes::look_at(const Node& node) {
  const bool product = node.op == Op::convolution && Product::of(graph_, node.id).has_value();
  if (!product && keeps_factors(node)) return;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (!(product && i == 0)) fix(node.input(i));
  if (!product)
    for (const ValueId v : node.outputs) fix(v);
}

bool Classes::keeps_factors(const Node& node) {
  const ValueId x = node.input(0), y = node.output();
  if (node.op == Op::mul) return has(y) && join_gated(node);
  if (!has(x) || !has(y)) return false;
  switch (node.op) {
    case Op::max_pool:
    case Op::adaptive_max_pool:
      if (node.outputs.size() > 1 && graph_.is_used(node.output(1))) return false;
      [[fallthrough]];
    case Op::relu:
    case Op::leaky_relu:
    case Op::avg_pool:
    case Op::adaptive_avg_pool:
    case Op::upsample:
      if (channels(x) != channels(y)) return false;
      join_all(x, y);
      return true;
    case Op::prelu:
      if (!is_plain_constant(graph_, node.input(1))) return false;
      join_all(x, y);
      return true;
    case Op::add:
    case Op::sub:
      return join_sum(node);
    case Op::concat:
      return join_concat(node);
    case Op::slice:
      return join_slice(node);
    case Op::pad:
      return join_pad(node);
    default:
      return false;
  }
}

bool Classes::join_sum(const Node& node) {
  const ValueId a = node.input(0), b = node.input(1), y = node.output();
  if (!has(b) || channels(a) != channels(y) || channels(b) != channels(y)) return false;
  join_all(a, y);
  join_all(b, y);
  return true;
}

// What is multiplied with fewer numbers, one for a channel or for a place, keeps its factors; they have none.
bool Classes::join_gated(const Node& node) {
  const ValueId y = node.output();
  const auto covers = [&](ValueId v) { return has(v) && graph_.dims(v) == graph_.dims(y); };
  const bool first = covers(node.input(0)), second = covers(node.input(1));
  if (first == second) return false;
  join_all(node.input(first ? 0 : 1), y);
  fix(node.input(first ? 1 : 0));
  return true;
}

bool Classes::join_concat(const Node& node) {
  const bool along = node.attrs.integer("dim") == 1;
  if (!std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return has(v); })) return false;
  size_t at = 0;
  for (const ValueId v : node.inputs) {
    for (size_t c = 0; c < channels(v); ++c) join(slot(v, c), slot(node.output(), at + c));
    if (along) at += channels(v);
  }
  return true;
}

bool Classes::join_slice(const Node& node) {
  const ValueId x = node.input(0), y = node.output();
  const bool along = node.attrs.integer("dim") == 1;
  const auto start = static_cast<size_t>(along ? node.attrs.integer("start") : 0);
  const auto step = static_cast<size_t>(along ? node.attrs.integer("step") : 1);
  for (size_t c = 0; c < channels(y); ++c) join(slot(x, start + c * step), slot(y, c));
  return true;
}

// Zeros stay zeros whatever they are divided by.
bool Classes::join_pad(const Node& node) {
  const ValueId x = node.input(0), y = node.output();
  const auto before = static_cast<size_t>(node.attrs.ints("before")[1]);
  const bool same = channels(x) == channels(y);
  const bool zeros = node.attrs.text("mode") == "constant" && node.attrs.real("value") == 0;
  if (!zeros && (!same || node.attrs.text("mode") == "constant")) return false;
  for (size_t c = 0; c < channels(x); ++c) join(slot(x, c), slot(y, before + c));
  return true;
}

void Classes::choose(float alpha) {
  for (size_t i = 0; i < factor_.size(); ++i) {
    if (root(i) != i || fixed_[i] || !(activation_[i] > 0)) continue;
    const float w = weight_[i] > 0 ? weight_[i] : 1;
    factor_[i] = std::clamp(std::pow(activation_[i], alpha) / std::pow(w, 1 - alpha), kLeastFactor, 1.0f);
  }
}

std::vector<float> Classes::factors(ValueId v) const {
  if (!has(v)) return {};
  std::vector<float> out(channels(v));
  bool any = false;
  for (size_t c = 0; c < out.size(); ++c) {
    out[c] = factor_[root(slot(v, c))];
    any = any || out[c] != 1;
  }
  return any ? out : std::vector<float>();
}

size_t Classes::divided() const {
  size_t out = 0;
  for (size_t i = 0; i < factor_.size(); ++i) out += factor_[root(i)] != 1;
  return out;
}

double Classes::imbalance() const {
  double bits = 0, count = 0;
  for (size_t i = 0; i < factor_.size(); ++i) {
    const size_t k = root(i);
    if (fixed_[k] || !(activation_[k] > 0)) continue;
    bits -= std::log2(std::max(activation_[k], kLeastFactor));
    count += 1;
  }
  return count > 0 ? bits / count : 0;
}

}  // namespace

double imbalance_of(const Graph& graph, const Observations& seen) { return Classes(graph, seen).imbalance(); }

size_t balance_channels(Graph& graph, const Observations& seen, float alpha) {
  Classes classes(graph, seen);
  classes.choose(alpha);
  for (const NodeId id : graph.order()) {
    const auto p = Product::of(graph, id);
    if (!p || graph.node(id).op != Op::convolution) continue;
    if (const auto by = classes.factors(graph.node(id).output()); !by.empty()) divide_outputs(graph, *p, by);
    if (const auto by = classes.factors(graph.node(id).input(0)); !by.empty()) multiply_inputs(graph, *p, by);
  }
  return classes.divided();
}

}  // namespace sixfold
