#include "sixfold/quantize/last_ranges.h"

#include <algorithm>
#include <optional>

#include "sixfold/quantize/product.h"

namespace sixfold {
namespace {

constexpr float kSmaller = 0.6f, kLeastPart = 0.2f;
constexpr double kLeastGain = 0.3;  // dB of a try

bool is_sigmoid(const Node& node) { return quantize_rule(node) == QuantizeRule::unit; }
// Its result lies on the operand's grid.
bool follows(const Node& node) {
  const QuantizeRule rule = quantize_rule(node);
  return rule == QuantizeRule::move || rule == QuantizeRule::select;
}

const Node* past_moves(const Graph& graph, ValueId v) {
  const Node* node = graph.producer(v);
  while (node && quantize_rule(*node) == QuantizeRule::move) node = graph.producer(node->input(0));
  return node;
}

// Values on the grid of v, which has another one in b.
std::vector<ValueId> differing(const Graph& a, const Graph& b, ValueId v) {
  std::vector<ValueId> out;
  for (const Value& x : a.values())
    if (x.kind != ValueKind::constant && x.encoding && x.encoding->quant_max <= 255 &&
        x.encoding != b.value(x.id).encoding && b.value(x.id).encoding == b.value(v).encoding)
      out.push_back(x.id);
  return out;
}

}  // namespace

Graph with_only(const Graph& quantized, std::span<const ValueId> values) {
  Graph out = quantized;
  for (const Value& v : quantized.values()) out.value(v.id).encoding.reset();
  for (const ValueId v : values) out.value(v).encoding = quantized.value(v).encoding;
  return out;
}

std::vector<ValueId> read_before_last_sigmoids(const Graph& graph) {
  std::vector<ValueId> out, next;
  for (const Leaf& leaf : graph.outputs) {
    const Node* last = leaf.value.valid() ? past_moves(graph, leaf.value) : nullptr;
    const Node* product = last && is_sigmoid(*last) ? past_moves(graph, last->input(0)) : nullptr;
    if (product && is_product(*product)) next.push_back(product->input(0));
  }
  std::set<ValueId> seen;
  for (size_t i = 0; i < next.size(); ++i) {
    const Node* node = graph.producer(next[i]);
    if (!node || is_sigmoid(*node) || graph.dtype(next[i]) != DType::f32 || !seen.insert(next[i]).second)
      continue;
    if (!follows(*node)) out.push_back(next[i]);
    if (!is_product(*node)) next.insert(next.end(), node->inputs.begin(), node->inputs.end());
  }
  return out;
}

Result<CutRanges> cut_last_ranges(const Graph& quantized, std::span<const ValueId> values,
                                  const RangeChoice& ranges,
                                  const std::function<Result<Graph>(const RangeChoice&)>& make, Meter& meter,
                                  double tries) {
  CutRanges out{.ranges = ranges};
  for (const ValueId v : values) {
    std::optional<double> best;
    double first = 0;
    for (float part = kSmaller; part > kLeastPart; part *= kSmaller) {
      if ((tries -= 1) < 0) return out;
      RangeChoice other = out.ranges;
      other.cut[v.index] = part;
      SF_ASSIGN(const Graph smaller, make(other));
      if (smaller.value_count() != quantized.value_count()) break;
      const std::vector<ValueId> group = differing(quantized, smaller, v);
      if (group.empty()) break;  // its grid is the op's
      if (!best) {
        SF_ASSIGN(best, meter(with_only(quantized, group)));
        first = *best;
      }
      SF_ASSIGN(const double decibels, meter(with_only(smaller, group)));
      if (decibels < *best + kLeastGain) break;
      best = decibels;
      out.ranges = std::move(other);
    }
    if (best && first < out.least_db) out.least_db = first, out.now_db = *best;
  }
  return out;
}

}  // namespace sixfold
