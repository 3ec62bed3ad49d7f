#include "sixfold/quantize/bounds.h"

#include <algorithm>
#include <cmath>

namespace sixfold {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Range united(Range a, Range b) { return {std::min(a.min, b.min), std::max(a.max, b.max)}; }

// An infinite end times 0 is as far as anything finite reaches: 0.
float times(float a, float b) { return a == 0 || b == 0 ? 0 : a * b; }

class Finder {
 public:
  explicit Finder(const Graph& graph) : graph_(graph), bounds_(graph.value_count(), kEverything) {}

  std::vector<Range> run() {
    for (const NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      if (node.outputs.size() == 1 && is_float(graph_.dtype(node.output())))
        bounds_[node.output().index] = of_result(node);
    }
    return std::move(bounds_);
  }

 private:
  Range operand(const Node& node, size_t i) const {
    return i < node.inputs.size() && node.input(i).valid() ? bounds_[node.input(i).index] : kEverything;
  }
  // What any of the elements can be, of all operands.
  Range of_all(const Node& node) const {
    Range out = operand(node, 0);
    for (size_t i = 1; i < node.inputs.size(); ++i) out = united(out, operand(node, i));
    return out;
  }
  // f that never falls
  static Range mapped(Range x, float (*f)(float)) { return {f(x.min), f(x.max)}; }

  static Range clamped(const Node& node, Range x) {
    const float low = node.attrs.is_given("min") ? static_cast<float>(node.attrs.real("min")) : -kInfinity;
    const float given = node.attrs.is_given("max") ? static_cast<float>(node.attrs.real("max")) : kInfinity;
    const float high = std::max(low, given);
    return {std::clamp(x.min, low, high), std::clamp(x.max, low, high)};
  }

  Range of_product(const Node& node) const {
    const Range a = operand(node, 0), b = operand(node, 1);
    const float ends[] = {times(a.min, b.min), times(a.min, b.max), times(a.max, b.min), times(a.max, b.max)};
    const float low = *std::min_element(ends, ends + 4), high = *std::max_element(ends, ends + 4);
    return {node.input(0) == node.input(1) ? std::max(low, 0.0f) : low, high};
  }

  Range of_result(const Node& node) const {
    const Range x = operand(node, 0);
    switch (node.op) {
      case Op::sigmoid:
      case Op::hardsigmoid:
      case Op::softmax:
        return {0, 1};
      case Op::tanh:
      case Op::erf:
      case Op::sin:
      case Op::cos:
        return {-1, 1};
      case Op::relu:
        return mapped(x, [](float v) { return std::max(v, 0.0f); });
      case Op::clamp:
        return clamped(node, x);
      case Op::exp:
      case Op::sqrt:
      case Op::rsqrt:
        return {0, kInfinity};
      case Op::abs:
        return {0, std::max(std::fabs(x.min), std::fabs(x.max))};
      case Op::hardswish:
        return {-0.375f, std::max(x.max, 0.0f)};
      case Op::gelu:
        return {-0.17f, std::max(x.max, 0.0f)};
      case Op::silu:
        return {-0.28f, std::max(x.max, 0.0f)};
      case Op::add:
        return {x.min + operand(node, 1).min, x.max + operand(node, 1).max};
      case Op::sub:
        return {x.min - operand(node, 1).max, x.max - operand(node, 1).min};
      case Op::mul:
        return of_product(node);
      case Op::minimum:
      case Op::maximum:
      case Op::concat:
        return of_all(node);
      case Op::avg_pool:  // padding counts
        return united(x, {0, 0});
      case Op::mean:
      case Op::amax:
      case Op::amin:
      case Op::max_pool:
      case Op::adaptive_avg_pool:
      case Op::reshape:
      case Op::permute:
      case Op::expand:
      case Op::slice:
      case Op::flip:
      case Op::repeat:
      case Op::pixel_shuffle:
      case Op::pixel_unshuffle:
      case Op::convert:
        return x;
      default:
        return kEverything;
    }
  }

  const Graph& graph_;
  std::vector<Range> bounds_;
};

}  // namespace

std::vector<Range> find_bounds(const Graph& graph) { return Finder(graph).run(); }

}  // namespace sixfold
