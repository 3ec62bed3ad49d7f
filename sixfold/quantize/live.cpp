#include "sixfold/quantize/live.h"

#include <algorithm>
#include <cmath>

namespace sixfold {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr Range kNothing{kInfinity, -kInfinity};

// Of what lies between 0 and 1, or -1 and 1: less than halves tell, or 16 bits.
constexpr double kLeastError = 0x1p-18;

Range united(Range a, Range b) { return {std::min(a.min, b.min), std::max(a.max, b.max)}; }

double silu(double x) { return x / (1 + std::exp(-x)); }
double gelu(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }

// Below it f, which has its dip right of `from`, is nearer to zero than `error`.
float left_tail(double (*f)(double), double from, double error) {
  double x = from;
  while (x > -40 && std::fabs(f(x)) > error) x -= 0.125;
  return static_cast<float>(x);
}

class Finder {
 public:
  Finder(const Graph& graph, const std::function<double(ValueId)>& step)
      : graph_(graph), step_(step), live_(graph.value_count(), kNothing) {}

  std::vector<Range> run() {
    for (const Leaf& leaf : graph_.outputs)
      if (leaf.value.valid()) live_[leaf.value.index] = kEverything;
    for (const Graph::Mutation& m : graph_.mutations) live_[m.next.index] = kEverything;
    const std::vector<NodeId> order = graph_.order();
    for (size_t i = order.size(); i-- > 0;) {
      const Node& node = graph_.node(order[i]);
      for (size_t k = 0; k < node.inputs.size(); ++k)
        if (const ValueId v = node.input(k); v.valid())
          live_[v.index] = united(live_[v.index], told_apart(node, k));
    }
    for (Range& r : live_)
      if (!(r.min <= r.max)) r = kEverything;
    return std::move(live_);
  }

 private:
  Range told_apart(const Node& node, size_t operand) const {
    if (node.outputs.size() != 1) return kEverything;
    const double error = step_(node.output()) / 4;  // less than what rounding costs; 0: not known
    const Range of_result = live_[node.output().index];
    switch (node.op) {
      case Op::hardswish:
        return {-3, kInfinity};
      case Op::hardsigmoid:
        return {-3, 3};
      case Op::asin:  // beyond it there is no number
        return {-1, 1};
      case Op::sigmoid: {
        const auto end = static_cast<float>(std::log(1 / (error > 0 ? error : kLeastError) - 1));
        return {-end, end};
      }
      case Op::tanh: {  // 1 - tanh(x) = 2 / (e^2x + 1)
        const auto end = static_cast<float>(std::log(2 / (error > 0 ? error : kLeastError) - 1) / 2);
        return {-end, end};
      }
      case Op::exp:
        return {error > 0 ? static_cast<float>(std::log(error)) : -kInfinity, kInfinity};
      case Op::gelu:
        return {error > 0 ? left_tail(gelu, -1, error) : -kInfinity, kInfinity};
      case Op::mul:
        return of_gate(node, operand, error);
      // Elements as they are: what is cut before them is cut behind them.
      case Op::reshape:
      case Op::permute:
      case Op::expand:
      case Op::slice:
      case Op::concat:
      case Op::flip:
      case Op::repeat:
      case Op::max_pool:
      case Op::pixel_shuffle:
      case Op::pixel_unshuffle:
        return united(of_result, {0, 0});
      default:
        return kEverything;
    }
  }

  // x * sigmoid(x), x * hardsigmoid(x)
  Range of_gate(const Node& node, size_t operand, double error) const {
    const ValueId x = node.input(operand);
    const Node* gate = graph_.producer(node.input(1 - operand));
    if (!gate || gate->inputs.empty() || gate->input(0) != x) return kEverything;
    if (gate->op == Op::hardsigmoid) return {-3, kInfinity};
    if (gate->op == Op::sigmoid && error > 0) return {left_tail(silu, -1.3, error), kInfinity};
    return kEverything;
  }

  const Graph& graph_;
  const std::function<double(ValueId)>& step_;
  std::vector<Range> live_;
};

}  // namespace

std::vector<Range> find_live_ranges(const Graph& graph, const std::function<double(ValueId)>& step) {
  return Finder(graph, step).run();
}

}  // namespace sixfold
