// quantize_well: which nodes compute with more bits than were asked for.
#include <algorithm>

#include "sixfold/quantize/improving.h"

namespace sixfold {
namespace {

constexpr double kLeastGainOfHalves = 3.0;  // decibels; they cost more than 16 bits
constexpr double kWellTold = 50.0;          // decibels from which they are not worth it
constexpr double kMostlyNoise = 8.0,
                 kRescued = 6.0;  // decibels, and those that 16 bits everywhere must bring
// Decibels from which no layer's place alone gives it 16 bits; the last one's up to kExact, where what it
// gives is rounded coarser than all before it and so many values at the most are converted for it.
constexpr double kEnough = 25.0, kExact = 45.0;
constexpr size_t kFewConverts = 2;
constexpr double kEnds = 3, kEndsWork = 12e9;  // tries, and multiplications that they may take

size_t converts_in(const Graph& graph) {
  const std::vector<NodeId> order = graph.order();
  return static_cast<size_t>(
      std::count_if(order.begin(), order.end(), [&](NodeId id) { return graph.node(id).op == Op::convert; }));
}

}  // namespace

Status Improving::widen() {
  if (!options_.widen) return {};
  if (!(options_.halves && best_ >= kWellTold)) SF_TRY(widen_some());
  if (options_.halves) return {};
  double worst = best_;  // of several outputs one may be noise
  if (meter_->outputs() > 1) {
    SF_TRY((*meter_)(out_.graph));
    worst = meter_->worst();
  }
  if (worst < kMostlyNoise) SF_TRY(widen_all());
  if (options_.automatic && !few_ && out_.wide == Wide::none && best_ < kExact &&
      kEndsWork >= kEnds * cost_of_try())
    return best_ < kEnough ? widen_ends() : widen_last();
  return {};
}

void Improving::take(Wide which, const RangeChoice& ranges, Graph graph, double decibels) {
  out_.wide = which;
  out_.ranges = ranges;
  out_.graph = std::move(graph);
  best_ = decibels;
}

Status Improving::widen_some() {
  const double least = options_.halves ? kLeastGainOfHalves : kLeastGain;
  const char* what =
      options_.halves ? "halves where 16 bits tell too little" : "16 bits where 8 tell too little";
  // Once outliers have room, nothing need be cut off. Halves leave the others' ranges as they are.
  std::vector<RangeChoice> choices{out_.ranges};
  if (!options_.halves) choices.emplace_back();
  for (const RangeChoice& ranges : choices) {
    if (ranges == out_.ranges && out_.wide != Wide::none) continue;
    SF_ASSIGN(std::optional<Graph> wide, options_.widen(out_.seen, ranges, Wide::some));
    if (!wide) break;
    SF_ASSIGN(const double decibels, (*meter_)(*wide));
    const bool kept = decibels >= best_ + (out_.wide == Wide::none ? least : 0.0);
    out_.steps.push_back({what, best_, decibels, kept});
    if (!kept) continue;
    take(Wide::some, ranges, std::move(*wide), decibels);
  }
  return {};
}

Status Improving::widen_all() {
  const RangeChoice ranges{Observer::mse, {}};
  SF_ASSIGN(std::optional<Graph> wide, options_.widen(out_.seen, ranges, Wide::all));
  if (!wide) return {};
  SF_ASSIGN(const double decibels, (*meter_)(*wide));
  bool kept = decibels >= best_ + kRescued;
  out_.steps.push_back({"16 bits everywhere", best_, decibels, kept});
  // Weights as near as they are may hide it: they are yet to be rounded by what layers read.
  if (!kept && fits_weights_) {
    SF_ASSIGN(const double narrow, (*meter_)(out_.graph, /*real_weights=*/true));
    SF_ASSIGN(const double most, (*meter_)(*wide, /*real_weights=*/true));
    kept = most >= narrow + kRescued;
    out_.steps.push_back({"16 bits everywhere, weights not rounded", narrow, most, kept});
  }
  if (!kept) return {};
  take(Wide::all, ranges, std::move(*wide), decibels);
  return {};
}

Status Improving::widen_last() {
  SF_ASSIGN(std::optional<Graph> wide, options_.widen(out_.seen, out_.ranges, Wide::last));
  if (!wide || converts_in(*wide) > converts_in(out_.graph) + kFewConverts) return {};
  SF_ASSIGN(const double decibels, (*meter_)(*wide));
  const bool kept = decibels >= best_ + kLeastGain;
  out_.steps.push_back({"16 bits in the last layers", best_, decibels, kept});
  if (kept) take(Wide::last, out_.ranges, std::move(*wide), decibels);
  return {};
}

// 16 bits in the first layers, in the last or in both: what gives most, each of both half a decibel at least.
// Both come first: where they gain too little, one alone does too.
Status Improving::widen_ends() {
  struct Try {
    Wide which;
    const char* what;
    std::optional<Graph> graph;
    double decibels;
  };
  Try tries[] = {{Wide::ends, "16 bits in the first and last layers", {}, 0},
                 {Wide::last, "16 bits in the last layers", {}, 0},
                 {Wide::first, "16 bits in the first layers", {}, 0}};
  const double before = best_;
  for (Try& t : tries) {
    SF_ASSIGN(t.graph, options_.widen(out_.seen, out_.ranges, t.which));
    if (!t.graph) continue;
    SF_ASSIGN(t.decibels, (*meter_)(*t.graph));
    if (t.which != Wide::ends || t.decibels >= before + kLeastGain) continue;
    out_.steps.push_back({t.what, before, t.decibels, false});
    return {};
  }
  double least = before + kLeastGain;
  for (Try* t : {&tries[1], &tries[2], &tries[0]}) {
    if (!t->graph) continue;
    const bool kept = t->decibels >= least;
    out_.steps.push_back({t->what, before, t->decibels, kept});
    if (!kept) continue;
    take(t->which, out_.ranges, std::move(*t->graph), t->decibels);
    least = best_ + kLeastGain / 2;
  }
  return {};
}

}  // namespace sixfold
