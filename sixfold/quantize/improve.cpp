#include "sixfold/quantize/improve.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "sixfold/engine/session.h"
#include "sixfold/quantize/round.h"

namespace sixfold {
namespace {

// A model that takes long is run on fewer samples: multiplications for all samples of one look at it.
constexpr double kMeterWork = 1.5e9, kBiasWork = 3e9;
constexpr size_t kLeastMeterSamples = 2, kMostMeterSamples = 6;
constexpr size_t kLeastBiasSamples = 4, kMostBiasSamples = 8;
constexpr size_t kFewSamples = 8;
constexpr double kLeastGain = 1.0;  // in decibels, that 16 bits must bring
constexpr double kMostlyNoise = 8.0,
                 kRescued = 6.0;  // decibels, and those that 16 bits everywhere must bring
constexpr size_t kFittedSamples = 16, kFittedRows = 512;  // that weights are rounded by

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

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

size_t samples_for(double budget, double work, size_t least, size_t most) {
  return static_cast<size_t>(
      std::clamp(budget / work, static_cast<double>(least), static_cast<double>(most)));
}

Tensor copy_of(const Tensor& t) {
  std::byte* bytes = nullptr;
  Tensor out = Tensor::allocate(t.dtype, t.shape, &bytes);
  std::memcpy(bytes, t.data, t.size_bytes());
  return out;
}

}  // namespace

size_t held_back(size_t samples) { return samples < 16 ? 0 : std::min<size_t>(samples / 8, 8); }

// A model for each thread, and its share of the samples one after the other: threads inside a run would wait
// for each other at every node.
template <typename Make, typename Run>
Status Meter::for_samples(const Make& make, const Run& run) const {
  cpu::Pool pool(threads_);
  const size_t width = std::min(pool.threads(), samples_.size());
  std::vector<Status> statuses(width);
  pool.for_each(width, [&](size_t k) {
    statuses[k] = [&]() -> Status {
      cpu::Pool one(1);
      SF_ASSIGN(const auto model, make(one));
      for (size_t i = k; i < samples_.size(); i += width) SF_TRY(run(*model, i));
      return {};
    }();
  });
  for (Status& s : statuses)
    if (!s.ok()) return s.take_error();
  return {};
}

Result<std::unique_ptr<Meter>> Meter::create(const Graph& real, const Samples& all, size_t count,
                                             size_t threads) {
  auto out = std::make_unique<Meter>();
  const auto samples = spread_samples(all, count);
  out->threads_ = threads;
  for (const Leaf& leaf : real.outputs)
    if (leaf.value.valid()) out->judged_.push_back(is_float(real.dtype(leaf.value)));
  out->samples_.resize(samples->count());
  SF_TRY(out->for_samples([&](cpu::Pool& one) { return Watched::create(real, one); },
                          [&](Watched& model, size_t i) -> Status {
                            SF_ASSIGN(const std::vector<Tensor> fed, samples->read(i));
                            SF_ASSIGN(const Feed feed, match_inputs(real, fed));
                            SF_TRY(model.run(feed.tensors));
                            Sample& sample = out->samples_[i];
                            sample.inputs = feed.tensors;
                            for (size_t k = 0; k < model.output_count(); ++k)
                              sample.outputs.push_back(copy_of(model.output(k)));
                            return {};
                          }));
  return out;
}

Result<double> Meter::operator()(const Graph& quantized) const {
  const Graph rounded = with_rounded_constants(quantized);
  std::vector<std::vector<LayerError>> errors(samples_.size());
  SF_TRY(for_samples(
      [&](cpu::Pool& one) { return Simulation::create(rounded, one, /*inside=*/false, /*rounded=*/true); },
      [&](Simulation& model, size_t i) -> Status {
        SF_TRY(model.run(samples_[i].inputs));
        errors[i].resize(judged_.size());
        for (size_t k = 0; k < judged_.size(); ++k) {
          if (judged_[k]) errors[i][k].add(samples_[i].outputs[k], model.output(k));
        }
        return {};
      }));
  double worst = 200;
  for (size_t k = 0; k < judged_.size(); ++k) {
    LayerError sum;
    for (const std::vector<LayerError>& e : errors) {
      sum.power += e[k].power;
      sum.error += e[k].error;
    }
    if (judged_[k]) worst = std::min(worst, sum.sqnr_db());
  }
  return worst;
}

Result<Improved> quantize_well(const Graph& real, const Samples& samples, const MakeQuantized& make,
                               const ImproveOptions& options) {
  Improved out;
  const double begin = now_s();
  const size_t count = samples.count(), held = options.tell_accuracy ? held_back(count) : 0;
  out.held_back = held;
  out.calibrated = count - held;
  const auto calibration = some_samples(samples, 0, count - held);
  CalibrateOptions calibrating{.threads = options.threads};
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
  SF_ASSIGN(const Observations seen, calibrate(real, *calibration, calibrating));
  out.calibrate_seconds = now_s() - begin;
  const double work = work_of(real);
  std::vector<Observer> observers = options.observers;
  if (few) observers = {Observer::min_max};
  if (options.automatic && !few && work > kMeterWork / kLeastMeterSamples)
    std::erase_if(observers,
                  [](Observer o) { return o == Observer::min_max || o == Observer::moving_average; });
  out.observer = observers.empty() ? Observer::mse : observers[0];
  const bool improves =
      options.search_scales || options.choose_rounding || options.correct_biases || options.widen;
  std::unique_ptr<Meter> meter;
  if (observers.size() > 1 || improves) {
    const size_t judging = samples_for(kMeterWork, work, kLeastMeterSamples, kMostMeterSamples);
    SF_ASSIGN(meter, Meter::create(real, *calibration, judging, options.threads));
  }
  double best = -std::numeric_limits<double>::infinity();
  if (observers.size() > 1) {
    for (size_t i = 0; i < observers.size(); ++i) {
      SF_ASSIGN(Graph graph, make(seen, observers[i]));
      SF_ASSIGN(const double decibels, (*meter)(graph));
      out.tried.emplace_back(observers[i], decibels);
      if (decibels > best) {
        best = decibels;
        out.observer = observers[i];
        out.graph = std::move(graph);
      }
      if (options.progress) options.progress("choosing ranges", i + 1, observers.size());
    }
  } else {
    SF_ASSIGN(out.graph, make(seen, out.observer));
    if (improves) {
      SF_ASSIGN(best, (*meter)(out.graph));
    }
  }
  if (options.widen) {
    // Once outliers have room, nothing need be cut off.
    for (const Observer observer : {out.observer, Observer::min_max}) {
      if (observer == out.observer && out.widened) continue;
      SF_ASSIGN(std::optional<Graph> wide, options.widen(seen, observer));
      if (!wide) break;
      SF_ASSIGN(const double decibels, (*meter)(*wide));
      const bool kept = decibels >= best + (out.widened ? 0.0 : kLeastGain);
      out.steps.push_back({"16 bits where 8 tell too little", best, decibels, kept});
      if (!kept) continue;
      best = decibels;
      out.widened = true;
      out.observer = observer;
      out.graph = std::move(*wide);
    }
  }
  if (options.widen_all && best < kMostlyNoise) {
    SF_ASSIGN(std::optional<Graph> wide, options.widen_all(seen, Observer::mse));
    if (wide) {
      SF_ASSIGN(const double decibels, (*meter)(*wide));
      out.widened_all = decibels >= best + kRescued;
      out.steps.push_back({"16 bits everywhere", best, decibels, out.widened_all});
    }
    if (out.widened_all) {
      best = out.steps.back().after;
      out.widened = true;
      out.observer = Observer::mse;
      out.graph = std::move(*wide);
    }
  }
  // What is meant to better the numbers stays only where it does.
  const auto keep_if_better = [&](Graph before, const char* what) -> Result<bool> {
    SF_ASSIGN(const double decibels, (*meter)(out.graph));
    out.steps.push_back({what, best, decibels, decibels >= best});
    if (decibels >= best) {
      best = decibels;
      return true;
    }
    out.graph = std::move(before);
    return false;
  };
  if (fits_weights) {
    if (options.progress) options.progress("rounding weights", 0, 1);
    Graph before = out.graph;
    SF_ASSIGN(out.rounding, improve_weights(out.graph, *rows,
                                            {.search_scales = options.search_scales,
                                             .choose_rounding = options.choose_rounding,
                                             .shift_biases = options.correct_biases,
                                             .most_work = options.most_work,
                                             .threads = options.threads}));
    rows.reset();
    SF_ASSIGN(const bool kept, keep_if_better(std::move(before), "rounding"));
    if (!kept) out.rounding = {};
  }
  if (options.correct_biases) {
    if (options.progress) options.progress("correcting biases", 0, 1);
    const Graph before = out.graph;
    SF_ASSIGN(
        const std::vector<BiasCorrection> found,
        find_bias_corrections(real, before, *calibration,
                              {.samples = samples_for(kBiasWork, work, kLeastBiasSamples, kMostBiasSamples),
                               .threads = options.threads}));
    for (const bool last : {false, true}) {
      Graph kept = std::move(out.graph);
      out.graph = before;
      const size_t count = correct_biases(out.graph, found, last);
      const char* what = last ? "bias correction" : "bias correction but of the last";
      SF_ASSIGN(const bool better, keep_if_better(std::move(kept), what));
      if (better) out.biases = count;
    }
  }
  if (options.tell_accuracy) {
    if (options.progress) options.progress("judging", 0, 1);
    const auto judged = held ? some_samples(samples, count - held, held) : some_samples(samples, 0, 8);
    SF_ASSIGN(out.accuracy, measure(real, out.graph, *judged, options.threads));
  }
  out.seconds = now_s() - begin;
  return out;
}

}  // namespace sixfold
