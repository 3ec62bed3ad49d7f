// quantize_well: by which observer ranges are chosen.
#include <algorithm>
#include <map>

#include "sixfold/quantize/improving.h"
#include "sixfold/quantize/last_ranges.h"

namespace sixfold {
namespace {

constexpr double kLeastRangeGain = 0.3;  // decibels, of another range for one kind of op
constexpr double kCutWork = 12e9;        // multiplications of all tries of ranges before a last sigmoid

// Each kind of op in turn, the most frequent first, with the other observers: what try_ranges says is better
// stays. At most so many tries.
Status try_each_op(const Graph& graph, std::span<const Observer> observers, double tries, RangeChoice ranges,
                   const std::function<Result<bool>(const RangeChoice&)>& try_ranges) {
  std::map<Op, size_t> found;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    switch (quantize_rule(node.op)) {
      case QuantizeRule::none:
      case QuantizeRule::move:
      case QuantizeRule::unit:
      case QuantizeRule::table:
      case QuantizeRule::convert:
        break;
      default:
        if (graph.dtype(node.output()) == DType::f32) ++found[node.op];
    }
  }
  std::vector<std::pair<Op, size_t>> ops(found.begin(), found.end());
  std::stable_sort(ops.begin(), ops.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  const Observer usual = ranges.observer;
  for (const auto& [op, count] : ops)
    for (const Observer observer : observers) {
      if (observer == usual) continue;
      if ((tries -= 1) < 0) return {};
      RangeChoice other = ranges;
      other.of_ops[op] = observer;
      SF_ASSIGN(const bool better, try_ranges(other));
      if (better) ranges = std::move(other);
    }
  return {};
}

}  // namespace

Status Improving::choose_ranges() {
  SF_TRY(choose_observer());
  if (observers_.size() > 1 && options_.automatic) SF_TRY(choose_ranges_by_op());
  phases_.end("choosing ranges");
  return {};
}

Status Improving::choose_observer() {
  if (observers_.size() <= 1) {
    SF_ASSIGN(out_.graph, make_(out_.seen, out_.ranges));
    if (improves_) {
      SF_ASSIGN(best_, (*meter_)(out_.graph));
    }
    return {};
  }
  for (size_t i = 0; i < observers_.size(); ++i) {
    SF_ASSIGN(Graph graph, make_(out_.seen, {observers_[i], {}}));
    SF_ASSIGN(const double decibels, (*meter_)(graph));
    out_.tried.emplace_back(observers_[i], decibels);
    if (decibels > best_) {
      best_ = decibels;
      out_.ranges.observer = observers_[i];
      out_.graph = std::move(graph);
    }
    progress("choosing ranges", i + 1, observers_.size());
  }
  return {};
}

Status Improving::choose_ranges_by_op() {
  const auto try_ranges = [&](const RangeChoice& ranges) -> Result<bool> {
    SF_ASSIGN(Graph graph, make_(out_.seen, ranges));
    SF_ASSIGN(const double decibels, (*meter_)(graph));
    if (decibels < best_ + kLeastRangeGain) return false;
    best_ = decibels;
    out_.ranges = ranges;
    out_.graph = std::move(graph);
    return true;
  };
  const double before = best_;
  Graph plain = out_.graph;
  SF_TRY(try_each_op(real_, observers_, kTriedWork / cost_of_try(), out_.ranges, try_ranges));
  if (out_.ranges.of_ops.empty()) return {};
  // The best of many tries on few samples: less than this is chance.
  const bool kept = best_ >= before + kLeastGain;
  out_.steps.push_back({"other ranges of some ops", before, best_, kept});
  if (!kept) {
    best_ = before;
    out_.graph = std::move(plain);
    out_.ranges.of_ops.clear();
  }
  return {};
}

Status Improving::cut_before_sigmoids() {
  const std::vector<ValueId> last = read_before_last_sigmoids(real_);
  if (last.empty() || observers_.size() <= 1 || !options_.automatic || out_.wide == Wide::all) return {};
  const auto again = [&](const RangeChoice& ranges) -> Result<Graph> {
    if (out_.wide == Wide::none) return make_(out_.seen, ranges);
    SF_ASSIGN(std::optional<Graph> wide, options_.widen(out_.seen, ranges, out_.wide));
    return std::move(*wide);
  };
  SF_ASSIGN(CutRanges cut,
            cut_last_ranges(out_.graph, last, out_.ranges, again, *meter_, kCutWork / cost_of_try()));
  if (cut.ranges.cut.empty()) return {};
  const bool kept = cut.now_db >= cut.least_db + kLeastGain;
  out_.steps.push_back({"smaller ranges before a last sigmoid", cut.least_db, cut.now_db, kept});
  if (!kept) return {};
  out_.ranges = std::move(cut.ranges);
  SF_ASSIGN(out_.graph, again(out_.ranges));
  SF_ASSIGN(best_, (*meter_)(out_.graph));
  return {};
}

}  // namespace sixfold
