#include "sixfold/quantize/scale_logs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <optional>

#include "sixfold/quantize/product.h"

namespace sixfold {
namespace {

constexpr int kLargest = 14;   // exponent of the largest number: halves end at 2^16
constexpr int kMostMore = 64;  // of exponents: a square before a root has twice as many
constexpr int kSteps = 4;      // of exponents: a square, and the root of one, have whole numbers too

std::optional<double> log_of_2(Op op) {
  switch (op) {
    case Op::log:
      return std::numbers::ln2;
    case Op::log2:
      return 1.0;
    case Op::log10:
      return std::numbers::ln2 / std::numbers::ln10;
    default:
      return std::nullopt;
  }
}

bool is_only_read_by(const Graph& graph, ValueId v, NodeId reader) {
  const auto& users = graph.value(v).users;
  return !is_kept(graph, v) && std::all_of(users.begin(), users.end(), [&](NodeId u) { return u == reader; });
}

bool has_bound(const Node& node, const char* name) {
  const Attr* bound = node.attrs.find(name);
  return bound && !std::holds_alternative<std::monostate>(*bound);
}

// What has to be changed so that a value is 2^-exponent of what it was.
class Scaling {
 public:
  explicit Scaling(const Graph& graph) : graph_(&graph) {}

  bool scale(ValueId v, NodeId reader, int exponent) {
    if (is_plain_constant(*graph_, v)) {
      const Node& node = graph_->node(reader);
      for (size_t i = 0; i < node.inputs.size(); ++i)
        if (node.inputs[i] == v) constants_.push_back({reader, i, exponent});
      return true;
    }
    const Node* node = graph_->producer(v);
    if (!node || !is_only_read_by(*graph_, v, reader)) return false;
    values_.emplace_back(v, exponent);
    return scale(*node, exponent);
  }

  // Whether halves hold all that is scaled.
  bool fits(const Observations& seen) const {
    return std::all_of(values_.begin(), values_.end(), [&](const auto& scaled) {
      const Observation& o = seen.values[scaled.first.index];
      return !o.seen() || std::ldexp(std::max(o.max, -o.min), -scaled.second) < std::ldexp(1.0f, kLargest);
    });
  }

  void apply(Graph& graph) const {
    for (const Edit& e : constants_) {
      const int64_t n = graph.constant(graph.node(e.node).input(e.operand))->count();
      float* x = own_data(graph, e.node, e.operand);
      for (int64_t i = 0; i < n; ++i) x[i] = std::ldexp(x[i], -e.exponent);
    }
    for (const Edit& e : bounds_)
      for (const char* name : {"min", "max"})
        if (Node& node = graph.node(e.node); has_bound(node, name))
          node.attrs.set(name, std::ldexp(node.attrs.real(name), -e.exponent));
  }

 private:
  struct Edit {
    NodeId node;
    size_t operand;
    int exponent;
  };

  bool scale_all(const Node& node, int exponent) {
    return std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](ValueId v) { return scale(v, node.id, exponent); });
  }
  // The first that can, or else the other one: what lies before becomes small too then.
  bool scale_one(const Node& node, size_t first, size_t other, int exponent) {
    const Scaling before = *this;
    for (const size_t i : {first, other}) {
      if (scale(node.input(i), node.id, exponent)) return true;
      constants_ = before.constants_;
      bounds_ = before.bounds_;
      values_ = before.values_;
    }
    return false;
  }

  bool scale(const Node& node, int exponent) {
    switch (node.op) {
      case Op::clamp:
        bounds_.push_back({node.id, 0, exponent});
        return scale(node.input(0), node.id, exponent);
      case Op::relu:
      case Op::abs:
      case Op::sum:
      case Op::mean:
      case Op::reshape:
      case Op::permute:
      case Op::slice:
      case Op::expand:
        return scale(node.input(0), node.id, exponent);
      case Op::add:
      case Op::sub:
      case Op::maximum:
      case Op::minimum:
      case Op::concat:
        return scale_all(node, exponent);
      case Op::sqrt:
        return scale(node.input(0), node.id, 2 * exponent);
      case Op::mul:
      case Op::matmul:
        if (node.op == Op::mul && node.input(0) == node.input(1))
          return exponent % 2 == 0 && scale(node.input(0), node.id, exponent / 2);
        return is_plain_constant(*graph_, node.input(0)) ? scale_one(node, 1, 0, exponent)
                                                         : scale_one(node, 0, 1, exponent);
      case Op::convolution:
      case Op::linear:
        if (node.attrs.text("activation") != "none") return false;
        if (node.inputs.size() > 2 && node.input(2).valid() && !scale(node.input(2), node.id, exponent))
          return false;
        return is_plain_constant(*graph_, node.input(1)) && scale_one(node, 0, 1, exponent);
      default:
        return false;
    }
  }

  const Graph* graph_;
  std::vector<Edit> constants_, bounds_;
  std::vector<std::pair<ValueId, int>> values_;  // and their exponents
};

void add_to_result(Graph& graph, NodeId log, float addend) {
  std::byte* bytes = nullptr;
  Tensor number = Tensor::allocate(DType::f32, {}, &bytes);
  std::memcpy(bytes, &addend, sizeof addend);
  const ValueId result = graph.node(log).output();
  const ValueId constant = graph.add_constant("", std::move(number));
  const NodeId sum = graph.add_node(Op::add, "", {result, constant}, {}, {graph.type(result)},
                                    graph.node(log).origin, graph.next(log));
  graph.replace_uses(result, graph.node(sum).output());
  graph.set_input(sum, 0, result);
}

}  // namespace

bool has_logarithms_of_products(const Graph& graph) {
  const std::vector<NodeId> order = graph.order();
  return std::any_of(order.begin(), order.end(), [&](NodeId id) {
    const Node& node = graph.node(id);
    return log_of_2(node.op) && Scaling(graph).scale(node.input(0), id, kSteps);
  });
}

size_t scale_logarithms(Graph& graph, const Observations& seen) {
  size_t count = 0;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const auto unit = log_of_2(node.op);
    const ValueId x = node.input(0);
    if (!unit || x.index >= seen.values.size() || !(seen.values[x.index].max > 0)) continue;
    // What lies before the largest operand, its square say, may be larger.
    const int least = (std::ilogb(seen.values[x.index].max) + 1 - kLargest) / kSteps * kSteps;
    std::optional<Scaling> scaling;
    int exponent = least;
    for (; exponent <= least + kMostMore; exponent += kSteps) {
      Scaling one(graph);
      if (!one.scale(x, id, exponent)) break;
      if (!one.fits(seen)) continue;
      scaling = std::move(one);
      break;
    }
    if (!scaling || exponent == 0) continue;
    scaling->apply(graph);
    add_to_result(graph, id, static_cast<float>(exponent * *unit));
    ++count;
  }
  return count;
}

}  // namespace sixfold
