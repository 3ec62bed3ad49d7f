// quantize_well: which nodes compute with more bits than were asked for.
#include <algorithm>

#include "sixfold/quantize/improving.h"

namespace sixfold {
namespace {

constexpr double kLeastGainOfHalves = 3.0;  // decibels; they cost more than 16 bits
constexpr double kLeastGainOfMore = 3.0;    // decibels; they may take a quarter of the time
constexpr double kWellTold = 50.0;          // decibels from which they are not worth it
constexpr double kMostlyNoise = 8.0,
                 kRescued = 6.0;  // decibels, and those that 16 bits everywhere must bring
// Decibels from which no layer's place alone gives it 16 bits; the last one's up to kExact, where what it
// gives is rounded coarser than all before it and so many values at the most are converted for it.
constexpr double kEnough = 25.0, kExact = 45.0;
constexpr size_t kFewConverts = 2;
constexpr double kLeastGainOfEnds = 0.7;       // decibels
constexpr double kEnds = 3, kEndsWork = 12e9;  // tries, and multiplications that they may take

size_t converts_in(const Graph& graph) {
  const std::vector<NodeId> order = graph.order();
  return static_cast<size_t>(
      std::count_if(order.begin(), order.end(), [&](NodeId id) { return graph.node(id).op == Op::convert; }));
}

}  // namespace

Status Improving::widen() {
  if (!options_.find_wide) return {};
  if (!(options_.halves && now_.decibels >= kWellTold)) SF_TRY(widen_some());
  if (options_.halves) return {};
  const bool tries = options_.automatic && !few_;
  // 16 bits have room for what few samples did not show.
  const bool tries_more = options_.automatic && !tried_itself_;
  if (tries_more && now_.decibels < kEnough) SF_TRY(widen_more());
  double worst = now_.decibels;  // of several outputs one may be noise
  if (meter_->outputs() > 1) {
    SF_TRY((*meter_)(now_.graphs));
    worst = meter_->worst();
  }
  if (worst < kMostlyNoise) SF_TRY(widen_all());
  const bool told_well = now_.decibels >= kEnough;
  if (tries && now_.wide == Wide::none && now_.decibels < kExact && kEndsWork >= kEnds * cost_of_try())
    SF_TRY(told_well ? widen_last() : widen_ends());
  // Where the last layer's own rounding is not all, what else costs little time.
  if (tries_more && told_well && now_.wide != Wide::all && now_.wide != Wide::more && now_.decibels < kExact)
    SF_TRY(widen_more());
  return {};
}

Status Improving::widen_some() {
  const double least = options_.halves ? kLeastGainOfHalves : kLeastGain;
  const char* what =
      options_.halves ? "halves where 16 bits tell too little" : "16 bits where 8 tell too little";
  // Once outliers have room, nothing need be cut off. Halves leave the others' ranges as they are.
  std::vector<RangeChoice> choices{now_.ranges};
  if (!options_.halves) choices.emplace_back();
  SF_ASSIGN(const bool any, finds(Wide::some));
  if (!any) return {};
  for (const RangeChoice& ranges : choices) {
    if (ranges == now_.ranges && now_.wide != Wide::none) continue;
    SF_ASSIGN(Try wide, attempt(ranges, Wide::some));
    const bool kept = wide.decibels >= now_.decibels + (now_.wide == Wide::none ? least : 0.0);
    out_.steps.push_back({what, now_.decibels, wide.decibels, kept});
    if (kept) now_ = std::move(wide);
  }
  return {};
}

Status Improving::widen_more() {
  SF_ASSIGN(const bool any, finds(Wide::more));
  if (!any) return {};
  SF_ASSIGN(Try wide, attempt(now_.ranges, Wide::more));
  // Some are wide already: it may take as long as those, or else little longer.
  const double least = now_.wide == Wide::none ? kLeastGainOfMore : kLeastGain;
  const bool kept = wide.decibels >= now_.decibels + least;
  out_.steps.push_back({"16 bits where 8 cost most", now_.decibels, wide.decibels, kept});
  if (kept) now_ = std::move(wide);
  return {};
}

Status Improving::widen_all() {
  SF_ASSIGN(const bool any, finds(Wide::all));
  if (!any) return {};
  SF_ASSIGN(Try wide, attempt({Observer::mse, {}, {}}, Wide::all));
  bool kept = wide.decibels >= now_.decibels + kRescued;
  out_.steps.push_back({"16 bits everywhere", now_.decibels, wide.decibels, kept});
  // Weights as near as they are may hide it: they are yet to be rounded by what layers read.
  if (!kept && fits_weights_) {
    SF_ASSIGN(const double narrow, without_rounded_weights(now_));
    SF_ASSIGN(const double most, without_rounded_weights(wide));
    kept = most >= narrow + kRescued;
    out_.steps.push_back({"16 bits everywhere, weights not rounded", narrow, most, kept});
  }
  if (kept) now_ = std::move(wide);
  return {};
}

Status Improving::widen_last() {
  SF_ASSIGN(const bool any, finds(Wide::last));
  if (!any) return {};
  SF_ASSIGN(Try wide, attempt(now_.ranges, Wide::last));
  if (converts_in(wide.graphs[0]) > converts_in(now_.graphs[0]) + kFewConverts) return {};
  const bool kept = wide.decibels >= now_.decibels + kLeastGain;
  out_.steps.push_back({"16 bits in the last layers", now_.decibels, wide.decibels, kept});
  if (kept) now_ = std::move(wide);
  return {};
}

// 16 bits in the first layers, in the last or in both: what gives most, each of both half of that at least.
// Both come first: where they gain too little, one alone does too.
Status Improving::widen_ends() {
  const std::pair<Wide, const char*> places[] = {{Wide::ends, "16 bits in the first and last layers"},
                                                 {Wide::last, "16 bits in the last layers"},
                                                 {Wide::first, "16 bits in the first layers"}};
  const double before = now_.decibels;
  Try tries[3];
  for (size_t i = 0; i < 3; ++i) {
    SF_ASSIGN(const bool any, finds(places[i].first));
    if (!any) continue;
    SF_ASSIGN(tries[i], attempt(now_.ranges, places[i].first));
    if (i > 0 || tries[i].decibels >= before + kLeastGainOfEnds) continue;
    out_.steps.push_back({places[i].second, before, tries[i].decibels, false});
    return {};
  }
  double least = before + kLeastGainOfEnds;
  for (const size_t i : {1, 2, 0}) {
    if (tries[i].graphs.empty()) continue;
    const bool kept = tries[i].decibels >= least;
    out_.steps.push_back({places[i].second, before, tries[i].decibels, kept});
    if (!kept) continue;
    now_ = std::move(tries[i]);
    least = now_.decibels + kLeastGainOfEnds / 2;
  }
  return {};
}

}  // namespace sixfold
