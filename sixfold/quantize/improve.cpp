#include "sixfold/quantize/improve.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>

#include "sixfold/engine/session.h"
#include "sixfold/quantize/doubts.h"
#include "sixfold/quantize/last_ranges.h"
#include "sixfold/quantize/recycled.h"

namespace sixfold {
namespace {

// A model that takes long is run on fewer samples: multiplications for all samples of one look at it.
constexpr double kMeterWork = 1.5e9, kBiasWork = 3e9;
constexpr double kLittleBiasWork = 1.2e9;  // where rounding costs little, so that it shifts little
constexpr size_t kLeastMeterSamples = 2, kMostMeterSamples = 6;
constexpr size_t kLeastBiasSamples = 4, kMostBiasSamples = 8;
constexpr size_t kFewSamples = 8;
constexpr double kLeastGain = 1.0;          // in decibels, that 16 bits and ranges by kind of op must bring
constexpr double kLeastGainOfBiases = 0.2;  // seen on fewer samples: less is chance
constexpr double kLeastGainOfHalves = 3.0;  // they cost more than 16 bits
constexpr double kWellTold = 50.0;          // decibels from which they are not worth it
constexpr double kMostlyNoise = 8.0,
                 kRescued = 6.0;        // decibels, and those that 16 bits everywhere must bring
constexpr double kEnough = 25.0;        // decibels, from which no layer's place alone gives it 16 bits
constexpr double kEnds = 3;             // tries
constexpr double kWorthRounding = 0.5;  // decibels that weights as they are must bring
constexpr double kLargeWork = 2e9;      // multiplications of a model that takes long
constexpr double kTriedWork = 5e9, kLeastRangeGain = 0.3;  // of ranges by kind of op
constexpr double kCutWork = 12e9;                          // of ranges before a last sigmoid
constexpr size_t kFittedSamples = 16, kFittedRows = 512;   // that weights are rounded by

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// CPU seconds since the last phase ended, under the name of this one.
class Phases {
 public:
  explicit Phases(std::vector<std::pair<const char*, double>>& out) : out_(out) {}
  void end(const char* name) {
    const std::clock_t now = std::clock();
    out_.emplace_back(name, static_cast<double>(now - last_) / CLOCKS_PER_SEC);
    last_ = now;
  }

 private:
  std::vector<std::pair<const char*, double>>& out_;
  std::clock_t last_ = std::clock();
};

// Multiplications of one run, by what has weights.
double work_of(const Graph& graph) {
  double sum = 1;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op != Op::convolution && node.op != Op::linear) continue;
    const auto weights = static_cast<double>(numel(static_shape(graph.dims(node.input(1)))));
    const Shape out = static_shape(graph.dims(node.output()));
    const auto channels = static_cast<double>(node.op == Op::linear ? out.back() : out[1]);
    sum += weights * static_cast<double>(numel(out)) / std::max(channels, 1.0);
  }
  return sum;
}

// The same with what elementwise ops and the steps themselves take.
double cost_of(const Graph& graph, double work) {
  for (const NodeId id : graph.order()) {
    work += 20000;
    for (const ValueId v : graph.node(id).outputs)
      work += 20.0 * static_cast<double>(numel(static_shape(graph.dims(v))));
  }
  return work;
}

// Each kind of op in turn, the most frequent first, with the other observers: what try_ranges says is better
// stays. At most so many tries.
Status choose_ranges_by_op(const Graph& graph, std::span<const Observer> observers, double tries,
                           RangeChoice ranges,
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

size_t samples_for(double budget, double work, size_t least, size_t most) {
  return static_cast<size_t>(
      std::clamp(budget / work, static_cast<double>(least), static_cast<double>(most)));
}

// 16 bits in the first layers, in the last or in both: what gives most, each of both half a decibel at least.
Status widen_ends(const ImproveOptions& options, const Observations& seen, Meter& meter, double& best,
                  Improved& out) {
  const double before = best;
  double least = before + kLeastGain;
  for (const auto& [which, what] : {std::pair{Wide::last, "16 bits in the last layers"},
                                    std::pair{Wide::first, "16 bits in the first layers"},
                                    std::pair{Wide::ends, "16 bits in the first and last layers"}}) {
    SF_ASSIGN(std::optional<Graph> wide, options.widen(seen, out.ranges, which));
    if (!wide) continue;
    SF_ASSIGN(const double decibels, meter(*wide));
    const bool kept = decibels >= least;
    out.steps.push_back({what, before, decibels, kept});
    if (!kept) continue;
    best = decibels;
    least = best + kLeastGain / 2;
    out.wide = which;
    out.graph = std::move(*wide);
  }
  return {};
}

}  // namespace

size_t held_back(size_t samples) { return samples < 16 ? 0 : std::min<size_t>(samples / 8, 8); }

Result<Improved> quantize_well(const Graph& real, const Samples& samples, const MakeQuantized& make,
                               const ImproveOptions& options) {
  Improved out;
  const double begin = now_s();
  Phases phases(out.phases);
  const KeepMemory keep;
  const size_t count = samples.count(), held = options.tell_accuracy ? held_back(count) : 0;
  out.held_back = held;
  out.calibrated = count - held;
  const auto calibration = some_samples(samples, 0, count - held);
  CalibrateOptions calibrating{
      .threads = options.threads, .channels = options.look_at_channels, .channel_samples = 1};
  calibrating.histograms = std::any_of(options.observers.begin(), options.observers.end(), [](Observer o) {
    return o != Observer::min_max && o != Observer::moving_average;
  });
  if (options.progress)
    calibrating.progress = [&](size_t done, size_t total) { options.progress("calibrating", done, total); };
  SF_TRY(check_samples(real, samples));
  // Of few samples nobody knows what is rare: nothing is cut off, and weights are not fitted to them.
  const bool few = options.automatic && out.calibrated < kFewSamples;
  const bool fits_weights = (options.search_scales || options.choose_rounding) && !few;
  std::optional<LayerRows> rows;
  if (fits_weights) {
    rows.emplace(real, std::min(out.calibrated, kFittedSamples), kFittedRows);
    const size_t step = spread_step(out.calibrated, kFittedSamples);
    calibrating.look = [&, step](size_t sample, ValueId v, const cpu::TensorDesc& desc, const void* data) {
      if (sample % step == 0) rows->look(sample / step, v, desc, data);
    };
  }
  const double work = work_of(real);
  const bool improves =
      options.search_scales || options.choose_rounding || options.correct_biases || options.widen;
  // Those of the samples by which all tries are judged.
  const size_t judging = samples_for(kMeterWork, work, kLeastMeterSamples, kMostMeterSamples);
  std::vector<std::vector<Tensor>> outputs(judging);
  if (options.observers.size() > 1 || improves)
    calibrating.ran = [&outputs, step = spread_step(out.calibrated, judging)](size_t sample,
                                                                              const Watched& model) {
      if (sample % step == 0 && sample / step < outputs.size()) outputs[sample / step] = model.copy_outputs();
    };
  SF_ASSIGN(out.seen, calibrate(real, *calibration, calibrating));
  const Observations& seen = out.seen;
  if (options.doubt)
    for (const std::string& what : doubts_about(real, seen)) options.doubt(what);
  out.calibrate_seconds = now_s() - begin;
  phases.end("calibration");
  std::vector<Observer> observers = options.observers;
  // With 16 bits there is room for what some samples did not show. One alone is there to be tried itself.
  if (few && (observers.size() > 1 || out.calibrated == 1)) observers = {Observer::min_max};
  if (options.automatic && !few && work > kMeterWork / kLeastMeterSamples)
    std::erase_if(observers,
                  [](Observer o) { return o == Observer::min_max || o == Observer::moving_average; });
  out.ranges.observer = observers.empty() ? Observer::mse : observers[0];
  std::unique_ptr<Meter> meter;
  if (observers.size() > 1 || improves) {
    SF_ASSIGN(meter, Meter::create(real, *calibration, judging, options.threads, std::move(outputs)));
  }
  double best = -std::numeric_limits<double>::infinity();
  if (observers.size() > 1) {
    for (size_t i = 0; i < observers.size(); ++i) {
      SF_ASSIGN(Graph graph, make(seen, {observers[i], {}}));
      SF_ASSIGN(const double decibels, (*meter)(graph));
      out.tried.emplace_back(observers[i], decibels);
      if (decibels > best) {
        best = decibels;
        out.ranges.observer = observers[i];
        out.graph = std::move(graph);
      }
      if (options.progress) options.progress("choosing ranges", i + 1, observers.size());
    }
  } else {
    SF_ASSIGN(out.graph, make(seen, out.ranges));
    if (improves) {
      SF_ASSIGN(best, (*meter)(out.graph));
    }
  }
  if (observers.size() > 1 && options.automatic) {
    const auto try_ranges = [&](const RangeChoice& ranges) -> Result<bool> {
      SF_ASSIGN(Graph graph, make(seen, ranges));
      SF_ASSIGN(const double decibels, (*meter)(graph));
      if (decibels < best + kLeastRangeGain) return false;
      best = decibels;
      out.ranges = ranges;
      out.graph = std::move(graph);
      return true;
    };
    const double before = best;
    Graph plain = out.graph;
    const double tries = kTriedWork / (cost_of(real, work) * static_cast<double>(meter->samples()));
    SF_TRY(choose_ranges_by_op(real, observers, tries, out.ranges, try_ranges));
    if (!out.ranges.of_ops.empty()) {
      // The best of many tries on few samples: less than this is chance.
      const bool kept = best >= before + kLeastGain;
      out.steps.push_back({"other ranges of some ops", before, best, kept});
      if (!kept) {
        best = before;
        out.graph = std::move(plain);
        out.ranges.of_ops.clear();
      }
    }
  }
  phases.end("choosing ranges");
  if (options.widen && !(options.halves && best >= kWellTold)) {
    const double least = options.halves ? kLeastGainOfHalves : kLeastGain;
    // Once outliers have room, nothing need be cut off. Halves leave the others' ranges as they are.
    std::vector<RangeChoice> choices{out.ranges};
    if (!options.halves) choices.emplace_back();
    for (const RangeChoice& ranges : choices) {
      if (ranges == out.ranges && out.wide != Wide::none) continue;
      SF_ASSIGN(std::optional<Graph> wide, options.widen(seen, ranges, Wide::some));
      if (!wide) break;
      SF_ASSIGN(const double decibels, (*meter)(*wide));
      const bool kept = decibels >= best + (out.wide == Wide::none ? least : 0.0);
      const char* what =
          options.halves ? "halves where 16 bits tell too little" : "16 bits where 8 tell too little";
      out.steps.push_back({what, best, decibels, kept});
      if (!kept) continue;
      best = decibels;
      out.wide = Wide::some;
      out.ranges = ranges;
      out.graph = std::move(*wide);
    }
  }
  double worst = best;  // of several outputs one may be noise
  const bool takes_16 = options.widen && !options.halves;
  if (takes_16 && meter->outputs() > 1) {
    SF_TRY((*meter)(out.graph));
    worst = meter->worst();
  }
  if (takes_16 && worst < kMostlyNoise) {
    SF_ASSIGN(std::optional<Graph> wide, options.widen(seen, {Observer::mse, {}}, Wide::all));
    if (wide) {
      SF_ASSIGN(const double decibels, (*meter)(*wide));
      const bool kept = decibels >= best + kRescued;
      out.steps.push_back({"16 bits everywhere", best, decibels, kept});
      if (kept) {
        best = decibels;
        out.wide = Wide::all;
        out.ranges = {Observer::mse, {}};
        out.graph = std::move(*wide);
      }
    }
  }
  if (takes_16 && options.automatic && !few && out.wide == Wide::none && best < kEnough &&
      kTriedWork >= kEnds * cost_of(real, work) * static_cast<double>(meter->samples()))
    SF_TRY(widen_ends(options, seen, *meter, best, out));
  if (const std::vector<ValueId> last = read_before_last_sigmoids(real);
      !last.empty() && observers.size() > 1 && options.automatic && out.wide != Wide::all) {
    const auto again = [&](const RangeChoice& ranges) -> Result<Graph> {
      if (out.wide == Wide::none) return make(seen, ranges);
      SF_ASSIGN(std::optional<Graph> wide, options.widen(seen, ranges, out.wide));
      return std::move(*wide);
    };
    const double tries = kCutWork / (cost_of(real, work) * static_cast<double>(meter->samples()));
    SF_ASSIGN(CutRanges cut, cut_last_ranges(out.graph, last, out.ranges, again, *meter, tries));
    if (!cut.ranges.cut.empty()) {
      const bool kept = cut.now_db >= cut.least_db + kLeastGain;
      out.steps.push_back({"smaller ranges before a last sigmoid", cut.least_db, cut.now_db, kept});
      if (kept) {
        out.ranges = std::move(cut.ranges);
        SF_ASSIGN(out.graph, again(out.ranges));
        SF_ASSIGN(best, (*meter)(out.graph));
      }
    }
  }
  phases.end("16 bits");
  // What is meant to better the numbers stays only where it does.
  const auto keep_if_better = [&](Graph before, const char* what, double least = 0) -> Result<bool> {
    SF_ASSIGN(const double decibels, (*meter)(out.graph));
    const bool kept = decibels >= best + least;
    out.steps.push_back({what, best, decibels, kept});
    if (kept) {
      best = decibels;
      return true;
    }
    out.graph = std::move(before);
    return false;
  };
  // Where weights as they are would gain nothing, better rounding gains nothing either.
  bool weights_matter = true;
  if (improves && options.automatic && !few) {
    SF_ASSIGN(const double most, (*meter)(out.graph, /*real_weights=*/true));
    weights_matter = most >= best + kWorthRounding;
    out.steps.push_back({"weights not rounded", best, most, false});
    phases.end("what rounding costs");
  }
  const RoundingOptions rounding{.search_scales = options.search_scales,
                                 .choose_rounding = options.choose_rounding,
                                 .only_last = !weights_matter,
                                 .shift_biases = options.correct_biases,
                                 .most_work = options.most_work,
                                 .threads = options.threads};
  // Before a last sigmoid they do, whatever noise comes from before hides it: judged by themselves.
  if (fits_weights && !weights_matter) {
    Graph rounded = out.graph;
    SF_ASSIGN(RoundingReport report, improve_weights(rounded, *rows, rounding));
    rows.reset();  // what follows has use for the memory
    if (report.layers > 0) {
      SF_ASSIGN(const double before, (*meter)(with_only(out.graph, report.weights)));
      SF_ASSIGN(const double after, (*meter)(with_only(rounded, report.weights)));
      out.steps.push_back({"rounding before a last sigmoid", before, after, after > before});
      if (after > before) {
        out.rounding = std::move(report);
        out.graph = std::move(rounded);
        SF_ASSIGN(best, (*meter)(out.graph));
      }
    }
    phases.end("rounding");
  }
  if (fits_weights && weights_matter) {
    if (options.progress) options.progress("rounding weights", 0, 1);
    Graph before = out.graph;
    SF_ASSIGN(out.rounding, improve_weights(out.graph, *rows, rounding));
    rows.reset();
    SF_ASSIGN(const bool kept, keep_if_better(std::move(before), "rounding"));
    if (!kept) out.rounding = {};
    phases.end("rounding");
  }
  if (options.correct_biases && (weights_matter || work < kLargeWork)) {
    if (options.progress) options.progress("correcting biases", 0, 1);
    const Graph before = out.graph;
    const auto looks = [&](double most) {
      return samples_for(most, work, kLeastBiasSamples, kMostBiasSamples);
    };
    const size_t looked_at = looks(weights_matter ? kBiasWork : kLittleBiasWork);
    const double least = looked_at < looks(kBiasWork) ? kLeastGainOfBiases : 0;
    SF_ASSIGN(const std::vector<BiasCorrection> found,
              find_bias_corrections(real, before, *calibration,
                                    {.samples = looked_at, .threads = options.threads}));
    for (const bool last : {false, true}) {
      Graph kept = std::move(out.graph);
      out.graph = before;
      const size_t count = correct_biases(out.graph, found, last);
      const char* what = last ? "bias correction" : "bias correction but of the last";
      SF_ASSIGN(const bool better, keep_if_better(std::move(kept), what, least));
      if (better) out.biases = count;
    }
    phases.end("bias correction");
  }
  if (options.tell_accuracy) {
    if (options.progress) options.progress("judging", 0, 1);
    const size_t judges = work < kLargeWork ? 8 : 2;
    const auto judged =
        held ? some_samples(samples, count - held, std::min(held, judges)) : some_samples(samples, 0, judges);
    SF_ASSIGN(out.accuracy, measure(real, out.graph, *judged, options.threads));
    phases.end("judging");
  }
  out.seconds = now_s() - begin;
  return out;
}

}  // namespace sixfold
