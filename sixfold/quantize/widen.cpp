#include "sixfold/quantize/widen.h"

#include <algorithm>
#include <cmath>

#include "sixfold/quantize/product.h"

namespace sixfold {
namespace {

constexpr double kOutliers = 0.005;  // so many of a value's elements may be far from the others
// Of what the others are, squared, to what rounding adds: 15 dB with 8 bits. A bin of a histogram is 32 to 64
// steps of 16 bits, and all in the first one counts as its middle, so that 45 dB are what tells it.
constexpr double kLeastRatioOf8 = 30.0, kLeastRatioOf16 = 3e4;

// The mean square of all elements but the largest ones. Zero: nobody counted.
double body_of(const Observation& o) {
  if (o.histogram.empty() || !(o.high > o.low)) return 0;
  const size_t n = o.histogram.size();
  const double width = (static_cast<double>(o.high) - o.low) / static_cast<double>(n);
  const auto place = [&](size_t i) { return o.low + (static_cast<double>(i) + 0.5) * width; };
  double count = 0, left = 0;
  for (const double c : o.histogram) count += c;
  left = count * kOutliers;
  // From both ends inwards, whichever is further from zero.
  size_t first = 0, last = n;
  while (first < last) {
    const bool low = std::fabs(place(first)) > std::fabs(place(last - 1));
    const double c = o.histogram[low ? first : last - 1];
    if (c > left) break;
    left -= c;
    low ? ++first : --last;
  }
  double sum = 0, kept = 0;
  for (size_t i = first; i < last; ++i) {
    sum += o.histogram[i] * place(i) * place(i);
    kept += o.histogram[i];
  }
  return kept > 0 ? sum / kept : 0;
}

// A logarithm tells small numbers apart that a grid does not: of a spectrum most lie within its first steps.
constexpr double kSmall = 1.0 / 2048, kMostSmall = 0.05;  // of the largest; of all elements

bool has_small_numbers(const Observation& o) {
  if (o.histogram.empty() || !(o.high > 0)) return false;
  const double width = (static_cast<double>(o.high) - o.low) / static_cast<double>(o.histogram.size());
  double small = 0, count = 0;
  for (size_t i = 0; i < o.histogram.size(); ++i) {
    count += o.histogram[i];
    if (o.low + static_cast<double>(i) * width < kSmall * o.high) small += o.histogram[i];
  }
  return small > kMostSmall * count;
}

bool passes_numbers_on(Op op) {
  switch (op) {
    case Op::mul:
    case Op::add:
    case Op::sub:
    case Op::div:
    case Op::pow:
    case Op::sqrt:
    case Op::abs:
    case Op::maximum:
    case Op::minimum:
    case Op::clamp:
    case Op::relu:
    case Op::sum:
    case Op::mean:
    case Op::reshape:
    case Op::permute:
    case Op::slice:
    case Op::expand:
    case Op::concat:
      return true;
    default:
      return false;
  }
}

// Whether a square is among what computes it, up to the last product.
bool is_power(const Graph& graph, ValueId v) {
  const Node* node = v.valid() ? graph.producer(v) : nullptr;
  if (!node || !passes_numbers_on(node->op)) return false;
  if (node->op == Op::pow || (node->op == Op::mul && node->input(0) == node->input(1))) return true;
  return std::any_of(node->inputs.begin(), node->inputs.end(), [&](ValueId x) { return is_power(graph, x); });
}

// Bands of a spectrum: a product of its power with constants.
bool is_sum_of_powers(const Graph& graph, const Node& node) {
  if (node.op != Op::matmul && node.op != Op::linear) return false;
  const bool first = graph.constant(node.input(0)), second = graph.constant(node.input(1));
  return first != second && is_power(graph, node.input(first ? 1 : 0));
}

// The logarithms of such, and what computes their operands up to the product that gives the spectrum.
void add_logarithms(const Graph& graph, const Observations& seen, std::set<uint32_t>& out) {
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op != Op::log && node.op != Op::log2 && node.op != Op::log10 && node.op != Op::log1p) continue;
    const ValueId x = node.input(0);
    if (x.index >= seen.values.size() || !has_small_numbers(seen.values[x.index])) continue;
    std::vector<const Node*> next{&node};
    while (!next.empty()) {
      const Node* at = next.back();
      next.pop_back();
      if (!out.insert(at->id.index).second) continue;
      for (const ValueId v : at->inputs)
        if (const Node* p = v.valid() ? graph.producer(v) : nullptr;
            p && (passes_numbers_on(p->op) || is_sum_of_powers(graph, *p)))
          next.push_back(p);
    }
  }
}

}  // namespace

namespace {

// What rounding to a grid of so many bits adds to a value, and what most of its elements are, squared.
struct Noise {
  double added = 0, body = 0;  // body 0: nobody counted
};

Noise noise_of(const GridGroup& g, const Observations& seen) {
  Range range{};
  Noise out;
  for (const ValueId v : g.ranged) {
    if (v.index >= seen.values.size() || !seen.values[v.index].seen()) continue;
    const Observation& o = seen.values[v.index];
    const Range r = choose_range(o, Observer::min_max, g.bits, g.symmetric);
    range = {std::min(range.min, r.min), std::max(range.max, r.max)};
    const double b = body_of(o);
    if (b > 0) out.body = out.body > 0 ? std::min(out.body, b) : b;
  }
  const double step = (static_cast<double>(range.max) - range.min) / ((1 << g.bits) - 1);
  out.added = step * step / 12;
  return out;
}

// All that gives a grid's values or reads them.
std::vector<uint32_t> nodes_around(const Graph& graph, const GridGroup& g) {
  std::vector<uint32_t> out;
  for (const ValueId v : g.members) {
    if (const Node* p = graph.producer(v)) out.push_back(p->id.index);
    for (const NodeId u : graph.value(v).users) out.push_back(u.index);
  }
  return out;
}

}  // namespace

UnequalJoins find_unequal_joins(const Graph& graph, const QuantizePlan& plan, const Observations& seen) {
  constexpr float kLeastPart = 1.0f / 16;  // of the range of all
  UnequalJoins out;
  std::set<ValueId> parts;
  for (const Leaf& leaf : graph.outputs) {
    const uint32_t group = leaf.value.valid() ? plan.group[leaf.value.index] : UINT32_MAX;
    if (group == UINT32_MAX || plan.groups[group].bits != 8 || plan.groups[group].fixed) continue;
    std::set<uint32_t> nodes;
    std::set<ValueId> joined;
    float least = std::numeric_limits<float>::infinity();
    Range all{};
    std::vector<ValueId> next{leaf.value};
    while (!next.empty()) {
      const ValueId v = next.back();
      next.pop_back();
      if (!v.valid()) continue;
      const Node* node = graph.producer(v);
      const QuantizeRule rule = node ? quantize_rule(*node) : QuantizeRule::none;
      if (rule == QuantizeRule::move || rule == QuantizeRule::join) {
        nodes.insert(node->id.index);
        const size_t count = rule == QuantizeRule::join ? node->inputs.size() : 1;
        next.insert(next.end(), node->inputs.begin(), node->inputs.begin() + static_cast<ptrdiff_t>(count));
        continue;
      }
      if (v.index >= seen.values.size() || !seen.values[v.index].seen() || !joined.insert(v).second) continue;
      const Observation& o = seen.values[v.index];
      const Range part{std::min(o.min, 0.0f), std::max(o.max, 0.0f)};
      all = {std::min(all.min, part.min), std::max(all.max, part.max)};
      if (o.max > o.min) least = std::min(least, part.max - part.min);
    }
    if (!(least <= kLeastPart * (all.max - all.min))) continue;
    out.nodes.merge(nodes);
    parts.merge(joined);
  }
  out.parts.assign(parts.begin(), parts.end());
  return out;
}

std::set<uint32_t> find_logarithms(const Graph& graph, const Observations& seen) {
  std::set<uint32_t> out;
  add_logarithms(graph, seen, out);
  return out;
}

std::set<uint32_t> find_wide_nodes(const Graph& graph, const QuantizePlan& plan, const Observations& seen,
                                   int bits) {
  std::set<uint32_t> out;
  if (bits == 16) add_logarithms(graph, seen, out);
  const double least = bits == 16 ? kLeastRatioOf16 : kLeastRatioOf8;
  for (const GridGroup& g : plan.groups) {
    if (g.bits != bits || g.fixed) continue;
    const Noise noise = noise_of(g, seen);
    if (!(noise.body > 0) || noise.body >= least * noise.added) continue;
    for (const uint32_t i : nodes_around(graph, g)) out.insert(i);
  }
  return out;
}

namespace {

class CostlyNodes {
 public:
  CostlyNodes(const Graph& graph, const WideCost& cost)
      : graph_(graph), order_(graph.order()), converts_(graph.value_count(), 0) {
    uint32_t most = 0;
    for (const NodeId id : order_) most = std::max(most, id.index);
    micros_.assign(most + 1, 0);
    wide_.assign(most + 1, false);
    for (const NodeId id : order_) micros_[id.index] = cost.node(graph.node(id));
    for (const Value& v : graph.values())
      if (v.kind == ValueKind::node && !v.users.empty()) converts_[v.id.index] = cost.convert(v.id);
  }

  void look(const QuantizePlan& plan, const Observations& seen) {
    constexpr double kMostNoise = 1;  // of a value, as a part of what it is: nothing is left of it then
    for (const GridGroup& g : plan.groups) {
      if (g.bits != 8 || g.fixed) continue;
      const Noise noise = noise_of(g, seen);
      if (!(noise.body > 0)) continue;
      left_.push_back({nodes_around(graph_, g), std::min(noise.added / noise.body, kMostNoise)});
      all_ += left_.back().noise;
    }
  }

  // The best first; each makes its neighbours cheaper, since nothing is converted between them.
  std::set<uint32_t> find(double most_micros, double least_part) {
    constexpr double kLeastMicros = 1e-3;  // of nodes that are wide already
    double covered = 0;
    while (!left_.empty()) {
      size_t best = left_.size();
      double most = 0, takes = 0;
      for (size_t i = 0; i < left_.size(); ++i) {
        const double time = micros_of(left_[i].nodes);
        if (time > most_micros) continue;
        const double gain = left_[i].noise / std::max(time, kLeastMicros);
        if (gain > most) most = gain, best = i, takes = time;
      }
      if (best == left_.size()) break;
      most_micros -= takes;
      covered += left_[best].noise;
      for (const uint32_t i : left_[best].nodes) wide_[i] = true;
      left_.erase(left_.begin() + static_cast<ptrdiff_t>(best));
    }
    std::set<uint32_t> out;
    if (covered < least_part * all_) return out;
    for (const NodeId id : order_)
      if (wide_[id.index]) out.insert(id.index);
    return out;
  }

  double micros_of(const std::set<uint32_t>& nodes) {
    return micros_of(std::vector(nodes.begin(), nodes.end()));
  }

 private:
  struct Costly {
    std::vector<uint32_t> nodes;
    double noise;
  };

  double convert_micros(ValueId v) const {
    if (converts_[v.index] == 0) return 0;
    const bool wide = wide_[graph_.producer(v)->id.index];
    const auto& users = graph_.value(v).users;
    const bool any =
        std::any_of(users.begin(), users.end(), [&](NodeId u) { return wide_[u.index] != wide; });
    return any ? converts_[v.index] : 0;
  }

  // What it takes that these are wide too.
  double micros_of(const std::vector<uint32_t>& nodes) {
    double sum = 0;
    fresh_.clear();
    touched_.clear();
    for (const uint32_t i : nodes) {
      if (wide_[i] || std::find(fresh_.begin(), fresh_.end(), i) != fresh_.end()) continue;
      fresh_.push_back(i);
      sum += micros_[i];
      const Node& node = graph_.node({i});
      for (const auto* values : {&node.inputs, &node.outputs})
        for (const ValueId v : *values)
          if (v.valid()) touched_.push_back(v);
    }
    std::sort(touched_.begin(), touched_.end());
    touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
    for (const ValueId v : touched_) sum -= convert_micros(v);
    for (const uint32_t i : fresh_) wide_[i] = true;
    for (const ValueId v : touched_) sum += convert_micros(v);
    for (const uint32_t i : fresh_) wide_[i] = false;
    return sum;
  }

  const Graph& graph_;
  const std::vector<NodeId> order_;
  std::vector<double> micros_, converts_;  // by node, by value
  std::vector<bool> wide_;                 // by node
  std::vector<Costly> left_;
  std::vector<uint32_t> fresh_;
  std::vector<ValueId> touched_;
  double all_ = 0;
};

}  // namespace

std::set<uint32_t> find_costly_nodes(const Graph& graph, const QuantizePlan& plan, const Observations& seen,
                                     const WideCost& cost, double most_micros, double least_part) {
  CostlyNodes nodes(graph, cost);
  nodes.look(plan, seen);
  return nodes.find(most_micros, least_part);
}

double wide_micros(const Graph& graph, const std::set<uint32_t>& nodes, const WideCost& cost) {
  return CostlyNodes(graph, cost).micros_of(nodes);
}

std::set<uint32_t> find_first_nodes(const Graph& graph) {
  constexpr size_t kFirst = 3;
  std::set<uint32_t> out;
  std::vector<size_t> products(graph.value_count(), 0);  // by value: on the longest way from an input
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    size_t most = 0;
    for (const ValueId v : node.inputs)
      if (v.valid()) most = std::max(most, products[v.index]);
    most += is_product(node);
    for (const ValueId v : node.outputs) products[v.index] = most;
    if (most > 0 && most <= kFirst) out.insert(id.index);
  }
  return out;
}

std::set<uint32_t> find_last_nodes(const Graph& graph) {
  std::set<uint32_t> out;
  std::vector<bool> after(graph.value_count(), false), before(graph.value_count(), false);
  for (const Leaf& leaf : graph.outputs)
    if (leaf.value.valid()) after[leaf.value.index] = true;
  const std::vector<NodeId> order = graph.order();
  for (size_t i = order.size(); i-- > 0;) {
    const Node& node = graph.node(order[i]);
    const auto any = [&](const std::vector<bool>& which) {
      return std::any_of(node.outputs.begin(), node.outputs.end(),
                         [&](ValueId v) { return static_cast<bool>(which[v.index]); });
    };
    const bool product = is_product(node), last = any(after), reads = any(before) && !product;
    if (!last && !reads) continue;
    out.insert(node.id.index);
    for (const ValueId v : node.inputs)
      if (v.valid()) (last && !product ? after : before)[v.index] = true;
  }
  return out;
}

bool fits_halves(const Graph& graph, const Node& node, const Observations& seen) {
  constexpr float kMost = 32000;  // of 65504, with room for what samples did not show
  const auto fits = [&](ValueId v) {
    if (!v.valid() || v.index >= seen.values.size() || !seen.values[v.index].seen()) return true;
    const Observation& o = seen.values[v.index];
    return is_float(graph.dtype(v)) && o.min > -kMost && o.max < kMost;
  };
  return std::all_of(node.inputs.begin(), node.inputs.end(), fits) &&
         std::all_of(node.outputs.begin(), node.outputs.end(), fits);
}

}  // namespace sixfold
