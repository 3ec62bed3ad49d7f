// quantize_well: by which observer ranges are chosen.
#include <algorithm>
#include <map>

#include "sixfold/quantize/improving.h"
#include "sixfold/quantize/last_ranges.h"

namespace sixfold {
namespace {

constexpr double kLeastRangeGain = 0.3;  // decibels, of cut ranges, or of others for one kind of op
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

// By value: what a product of two values that are computed reads, perhaps moved.
std::vector<bool> find_multiplied(const Graph& graph) {
  std::vector<bool> out(graph.value_count(), false);
  const std::vector<NodeId> order = graph.order();
  for (size_t i = order.size(); i-- > 0;) {
    const Node& node = graph.node(order[i]);
    const bool moved = quantize_rule(node) == QuantizeRule::move && !node.outputs.empty() &&
                       std::any_of(node.outputs.begin(), node.outputs.end(),
                                   [&](ValueId v) { return static_cast<bool>(out[v.index]); });
    if (node.op != Op::matmul && !moved) continue;
    for (const ValueId v : node.inputs)
      if (v.valid()) out[v.index] = true;
  }
  return out;
}

}  // namespace

Status Improving::choose_ranges() {
  SF_TRY(choose_observer());
  if (observers_.size() > 1 && options_.automatic) SF_TRY(choose_ranges_by_op());
  phases_.end("choosing ranges");
  return {};
}

Status Improving::choose_observer() {
  now_.ranges = out_.ranges;
  if (observers_.size() <= 1) {
    if (!improves_) return {};  // settle makes it
    SF_ASSIGN(now_, attempt(out_.ranges, Wide::none));
    return {};
  }
  // What cuts off without asking what it costs must be seen to gain: of what others are, samples tell little.
  double plain = -std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < observers_.size(); ++i) {
    const Observer observer = observers_[i];
    SF_ASSIGN(Try one, attempt({observer, {}, {}}, Wide::none));
    out_.tried.emplace_back(observer, one.decibels);
    if (observer == Observer::min_max) plain = one.decibels;
    const bool cuts = observer != Observer::min_max && observer != Observer::mse;
    if (one.decibels > now_.decibels && one.decibels >= plain + (cuts ? kLeastRangeGain : 0))
      now_ = std::move(one);
    progress("choosing ranges", i + 1, observers_.size());
  }
  return {};
}

Status Improving::choose_ranges_by_op() {
  Try best = now_;
  const auto try_ranges = [&](const RangeChoice& ranges) -> Result<bool> {
    SF_ASSIGN(Try other, attempt(ranges, Wide::none));
    if (other.decibels < best.decibels + kLeastRangeGain) return false;
    best = std::move(other);
    return true;
  };
  SF_TRY(try_each_op(real_, observers_, kTriedWork / cost_of_try(), now_.ranges, try_ranges));
  if (best.ranges.of_ops.empty()) return {};
  // The best of many tries on few samples: less than this is chance.
  const bool kept = best.decibels >= now_.decibels + kLeastGain;
  out_.steps.push_back({"other ranges of some ops", now_.decibels, best.decibels, kept});
  if (kept) now_ = std::move(best);
  return {};
}

// Where all has 16 bits: room as far as samples are from each other (choose_range), where what they show is
// told as well with it. Of sums that products cut, those of two values that are computed lose most.
Status Improving::choose_room() {
  constexpr double kMostLossByRoom = 0.1;  // decibels
  if (!options_.automatic || !improves_ || !(options_.halves || now_.wide == Wide::all)) return {};
  set_reaches(true);
  SF_ASSIGN(Try roomy, attempt(now_.ranges, now_.wide));
  const bool kept = roomy.decibels >= now_.decibels - kMostLossByRoom;
  out_.steps.push_back({"room for other samples", now_.decibels, roomy.decibels, kept});
  if (kept) now_ = std::move(roomy);
  if (!kept) set_reaches(false);
  return {};
}

void Improving::set_reaches(bool known) {
  std::vector<Observations*> all{&out_.seen};
  for (Observations& fit : fits_) all.push_back(&fit);
  if (reaches_.empty()) {
    const std::vector<bool> multiplied = find_multiplied(real_);
    for (Observations* seen : all) {
      std::vector<float>& of = reaches_.emplace_back();
      for (size_t i = 0; i < seen->values.size(); ++i)
        of.push_back(i < multiplied.size() && multiplied[i] ? 0 : seen->values[i].mean_reach);
    }
  }
  for (size_t k = 0; k < all.size(); ++k)
    for (size_t i = 0; i < all[k]->values.size(); ++i)
      all[k]->values[i].mean_reach = known ? reaches_[k][i] : 0;
}

Status Improving::cut_before_sigmoids() {
  const std::vector<ValueId> last = read_before_last_sigmoids(real_);
  if (last.empty() || observers_.size() <= 1 || !options_.automatic || out_.wide == Wide::all) return {};
  const auto again = [&](const RangeChoice& ranges) { return make_(out_.seen, ranges, out_.wide); };
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
