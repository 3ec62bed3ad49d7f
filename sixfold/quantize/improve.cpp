#include "sixfold/quantize/improve.h"

#include <algorithm>
#include <chrono>

#include "sixfold/ops/conv/conv.h"
#include "sixfold/quantize/doubts.h"
#include "sixfold/quantize/improving.h"

namespace sixfold {
namespace {

// A model that takes long is run on fewer samples: multiplications for all samples of one look at it, about,
// since their number is even: two cores have as many each.
constexpr double kMeterWork = 1.5e9;
constexpr size_t kLeastMeterSamples = 2, kMostMeterSamples = 6;
constexpr size_t kFewNumbers = 64;  // of all outputs: one sample's say nothing of the others'
constexpr size_t kFewSamples = 8;
constexpr size_t kLayersOfModel = 3;  // fewer are an op or two, which one sample is there to try
// What judges ranges is no part of what they are chosen by: so much of all samples at the most. Of few
// samples each judge leaves out only those that judge with it, one of so many parts.
constexpr size_t kPartsOfAll = 3, kParts = 3;
// Multiplications of a model from which factors are rounded: of a smaller one less is gained, and tries,
// which decide by fractions of a decibel, are spoilt sooner than ranges.
constexpr double kBf16Work = 2e8, kBf16TriesWork = 5e8;
constexpr double kBf16Tells = 25;  // dB: what is nearer to float is not told by rounded factors
constexpr size_t kFittedSamples = 16, kFittedRows = 2048;  // that weights are rounded by

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Elements of the outputs that tries are judged by.
size_t numbers_of(const Graph& graph) {
  size_t sum = 0;
  for (const Leaf& leaf : graph.outputs)
    if (leaf.value.valid() && is_float(graph.dtype(leaf.value)))
      sum += static_cast<size_t>(numel(static_shape(graph.dims(leaf.value))));
  return sum;
}

bool is_model(const Graph& graph) {
  const std::vector<NodeId> order = graph.order();
  return static_cast<size_t>(std::count_if(order.begin(), order.end(), [&](NodeId id) {
           return graph.node(id).op == Op::convolution || graph.node(id).op == Op::linear;
         })) >= kLayersOfModel;
}

}  // namespace

bool calibrates_in_bf16(const Graph& real, const ImproveOptions& options) {
  return options.bf16 && cpu::has_bf16_products() &&
         work_of(real) >= (options.halves ? kLargeWork : kBf16Work);
}

size_t held_back(size_t samples) { return samples < 16 ? 0 : std::min<size_t>(samples / 8, 8); }

Improving::Improving(const Graph& real, const Samples& samples, const MakeQuantized& make,
                     const ImproveOptions& options)
    : real_(real),
      samples_(samples),
      make_(make),
      options_(options),
      begin_s_(now_s()),
      count_(samples.count()),
      held_(options.holds_back ? held_back(count_) : 0),
      calibration_(some_samples(samples, 0, count_ - held_)),
      work_(work_of(real)) {
  out_.held_back = held_;
  out_.calibrated = count_ - held_;
  out_.packed = share_constants(real);
  // Of few samples nobody knows what is rare: nothing is cut off, and weights are not fitted to them.
  few_ = options.automatic && out_.calibrated < kFewSamples;
  tried_itself_ = out_.calibrated == 1 && !is_model(real);
  fits_weights_ = (options.search_scales || options.choose_rounding) && !few_;
  out_.bf16 = calibrates_in_bf16(real, options);
  bf16_tries_ = out_.bf16 && work_ >= kBf16TriesWork &&
                !options.halves;  // with 16 bits they would see the factors' rounding
  improves_ = options.search_scales || options.choose_rounding || options.correct_biases ||
              options.find_wide || options.goes_on;
}

// Ranges of all values, what layers read, and the outputs by which all tries are judged.
Status Improving::calibrate_all() {
  CalibrateOptions calibrating{.threads = options_.threads,
                               .channels = options_.look_at_channels,
                               .channel_samples = 1,
                               .bf16 = out_.bf16};
  calibrating.histograms = std::any_of(options_.observers.begin(), options_.observers.end(), [](Observer o) {
    return o != Observer::min_max && o != Observer::moving_average;
  });
  calibrating.progress = [&](size_t done, size_t total) { progress("calibrating", done, total); };
  SF_TRY(check_samples(real_, samples_));
  // Of a model that takes long they are looked at where they are wanted.
  if (fits_weights_ && !(options_.automatic && work_ >= kBf16Work))
    calibrating.look = begin_rows(spread_step(out_.calibrated, kFittedSamples));
  const size_t judging =
      numbers_of(real_) < kFewNumbers
          ? kMostMeterSamples
          : 2 * samples_for(kMeterWork / 2 + work_ / 2, work_, kLeastMeterSamples / 2, kMostMeterSamples / 2);
  std::vector<std::vector<Tensor>> outputs(judging);
  if ((options_.observers.size() > 1 || improves_) && out_.bf16 == bf16_tries_)
    calibrating.ran = [&outputs, step = spread_step(out_.calibrated, judging)](size_t sample,
                                                                               const Watched& model) {
      if (sample % step == 0 && sample / step < outputs.size()) outputs[sample / step] = model.copy_outputs();
    };
  const size_t judges = spread_samples(*calibration_, judging)->count();
  // Two judges, of a model that takes long, are too few to be worth another graph.
  if (options_.automatic && !few_ && !options_.halves && judges > kLeastMeterSamples) {
    calibrating.parts = judges * kPartsOfAll <= out_.calibrated ? 1 : std::min(judges, kParts);
    calibrating.part_of = [parts = calibrating.parts, judges,
                           step = spread_step(out_.calibrated, judging)](size_t sample) {
      const bool judge = sample % step == 0 && sample / step < judges;
      return judge ? sample / step % parts : parts;
    };
  }
  SF_ASSIGN(PartedObservations seen, calibrate_in_parts(real_, *calibration_, calibrating));
  SF_TRY(end_rows());
  out_.seen = std::move(seen.all);
  fits_ = std::move(seen.without);
  set_reaches(false);  // until choose_room
  if (options_.doubt)
    for (const std::string& what : doubts_about(real_, out_.seen)) options_.doubt(what);
  out_.calibrate_seconds = now_s() - begin_s_;
  phases_.end("calibration");
  observers_ = options_.observers;
  // With 16 bits there is room for what some samples did not show.
  if (few_ && (observers_.size() > 1 || tried_itself_)) observers_ = {Observer::min_max};
  if (options_.automatic && !few_ && work_ > kMeterWork / kLeastMeterSamples)
    std::erase(observers_, Observer::percentile);
  out_.ranges.observer = observers_.empty() ? Observer::mse : observers_[0];
  if (observers_.size() > 1 || improves_) {
    std::vector<ValueId> parts;
    if (options_.find_parts) {
      SF_ASSIGN(parts, options_.find_parts(out_.seen));
    }
    SF_ASSIGN(meter_, Meter::create(real_, *calibration_, judging, options_.threads, std::move(outputs),
                                    bf16_tries_, std::move(parts)));
  }
  return {};
}

Look Improving::begin_rows(size_t step) {
  rows_.emplace(real_, std::min(out_.calibrated, kFittedSamples), kFittedRows);
  return [this, step](size_t sample, ValueId v, const cpu::TensorDesc& desc, const void* data) {
    if (sample % step == 0) rows_->look(sample / step, v, desc, data);
  };
}

Status Improving::end_rows() {
  if (!rows_) return {};
  SF_ASSIGN(const Ranks ranks, Ranks::get());
  rows_->exchange(ranks);
  return {};
}

Status Improving::look_at_rows() {
  if (rows_) return {};
  const CalibrateOptions looking{
      .threads = options_.threads, .histograms = false, .bf16 = out_.bf16, .look = begin_rows(1)};
  SF_TRY(calibrate(real_, *spread_samples(*calibration_, kFittedSamples), looking));
  return end_rows();
}

Result<Improving::Try> Improving::attempt(const RangeChoice& ranges, Wide wide) {
  Try out{.ranges = ranges, .wide = wide};
  for (const Observations& seen : fits_.empty() ? std::span(&out_.seen, 1) : std::span(fits_)) {
    SF_ASSIGN(Graph made, make_(seen, ranges, wide));
    out.graphs.push_back(std::move(made));
  }
  SF_ASSIGN(out.decibels, (*meter_)(out.graphs));
  return out;
}

Status Improving::settle() {
  out_.ranges = now_.ranges;
  out_.wide = now_.wide;
  best_ = now_.decibels;
  if (fits_.empty() && !now_.graphs.empty()) {
    out_.graph = std::move(now_.graphs[0]);
    return {};
  }
  now_.graphs.clear();
  SF_ASSIGN(out_.graph, make_(out_.seen, out_.ranges, out_.wide));
  if (improves_) {
    SF_ASSIGN(best_, (*meter_)(out_.graph));
  }
  return {};
}

Result<Improved> Improving::run() {
  SF_TRY(calibrate_all());
  SF_TRY(choose_ranges());
  SF_TRY(widen());
  SF_TRY(choose_room());
  SF_TRY(settle());
  SF_TRY(cut_before_sigmoids());
  phases_.end("16 bits");
  if (options_.goes_on) {
    meter_->rest();
    SF_ASSIGN(const bool goes_on, options_.goes_on(out_, best_));
    out_.stopped = !goes_on;
    if (out_.stopped) return std::move(out_);
    phases_.skip();
  }
  SF_TRY(see_what_rounding_costs());
  SF_TRY(round_weights());
  SF_TRY(correct());
  out_.bf16_tells = bf16_tries_ && best_ < kBf16Tells;
  out_.seconds = now_s() - begin_s_;
  return std::move(out_);
}

Result<Accuracy> judge(const Graph& real, const Graph& quantized, const Samples& samples,
                       const JudgeOptions& options) {
  const size_t judges = work_of(real) < kLargeWork ? 8 : 2, held = options.held_back;
  const auto judged = held ? some_samples(samples, samples.count() - held, std::min(held, judges))
                           : some_samples(samples, 0, judges);
  MeasureOptions measuring{.threads = options.threads, .bf16 = options.bf16};
  SF_ASSIGN(Accuracy out, measure(real, quantized, *judged, measuring));
  if (!out.bf16 || decibels_of(out.outputs) < kBf16Tells) return out;
  measuring.bf16 = false;
  return measure(real, quantized, *judged, measuring);
}

Result<Improved> quantize_well(const Graph& real, const Samples& samples, const MakeQuantized& make,
                               const ImproveOptions& options) {
  return Improving(real, samples, make, options).run();
}

}  // namespace sixfold
