// quantize_well: better integers for weights and biases.
#include "sixfold/quantize/improving.h"
#include "sixfold/quantize/last_ranges.h"

namespace sixfold {
namespace {

constexpr double kWorthRounding = 0.75;    // decibels that weights as they are must bring
constexpr size_t kFewTried = 2;            // samples: of their decibels less than kLeastGain is chance
constexpr double kBiasWork = 3e9;          // multiplications for all samples
constexpr double kLittleBiasWork = 1.2e9;  // where rounding costs little, so that it shifts little
constexpr size_t kLeastBiasSamples = 4, kMostBiasSamples = 8;
constexpr double kLeastGainOfBiases = 0.2;  // decibels, seen on fewer samples: less is chance
constexpr double kMostLoss = 0.2;  // decibels, without the last layer's: those do not bring back more

}  // namespace

Result<bool> Improving::keep_if_better(Graph before, const char* what, double least) {
  SF_ASSIGN(const double decibels, (*meter_)(out_.graph));
  const bool kept = decibels >= best_ + least;
  out_.steps.push_back({what, best_, decibels, kept});
  if (kept) {
    best_ = decibels;
    return true;
  }
  out_.graph = std::move(before);
  return false;
}

// Where weights as they are would gain nothing, better rounding gains nothing either.
Status Improving::see_what_rounding_costs() {
  if (!improves_ || !options_.automatic || few_) return {};
  SF_ASSIGN(const double most, (*meter_)(out_.graph, /*real_weights=*/true));
  weights_matter_ = most >= best_ + (meter_->samples() > kFewTried ? kWorthRounding : kLeastGain);
  out_.steps.push_back({"weights not rounded", best_, most, false});
  phases_.end("what rounding costs");
  return {};
}

RoundingOptions Improving::rounding_options() const {
  return {.search_scales = options_.search_scales,
          .choose_rounding = options_.choose_rounding,
          .only_last = !weights_matter_,
          .shift_biases = options_.correct_biases,
          .most_work = options_.most_work,
          .threads = options_.threads};
}

// Before a last sigmoid they do, whatever noise comes from before hides it: judged by themselves.
Status Improving::round_last_weights() {
  if (!rows_ && read_before_last_sigmoids(real_).empty()) return {};
  SF_TRY(look_at_rows());
  Graph rounded = out_.graph;
  SF_ASSIGN(RoundingReport report, improve_weights(rounded, *rows_, rounding_options()));
  rows_.reset();  // what follows has use for the memory
  if (report.layers > 0) {
    SF_ASSIGN(const double before, (*meter_)(with_only(out_.graph, report.weights)));
    SF_ASSIGN(const double after, (*meter_)(with_only(rounded, report.weights)));
    out_.steps.push_back({"rounding before a last sigmoid", before, after, after > before});
    if (after > before) {
      out_.rounding = std::move(report);
      out_.graph = std::move(rounded);
      SF_ASSIGN(best_, (*meter_)(out_.graph));
    }
  }
  phases_.end("rounding");
  return {};
}

Status Improving::round_weights() {
  if (!fits_weights_) return {};
  if (!weights_matter_) return round_last_weights();
  SF_TRY(look_at_rows());
  progress("rounding weights", 0, 1);
  Graph before = out_.graph;
  SF_ASSIGN(out_.rounding, improve_weights(out_.graph, *rows_, rounding_options()));
  rows_.reset();
  SF_ASSIGN(const bool kept, keep_if_better(std::move(before), "rounding"));
  if (!kept) out_.rounding = {};
  phases_.end("rounding");
  return {};
}

Status Improving::correct() {
  if (!options_.correct_biases || !(weights_matter_ || work_ < kLargeWork)) return {};
  progress("correcting biases", 0, 1);
  const Graph before = out_.graph;
  const auto looks = [&](double most) {
    return samples_for(most, work_, kLeastBiasSamples, kMostBiasSamples);
  };
  const size_t looked_at = looks(weights_matter_ ? kBiasWork : kLittleBiasWork);
  const double least = looked_at < looks(kBiasWork) ? kLeastGainOfBiases : 0;
  meter_->rest();
  SF_ASSIGN(const std::vector<BiasCorrection> found,
            find_bias_corrections(real_, before, *calibration_,
                                  {.samples = looked_at, .threads = options_.threads}));
  for (const bool last : {false, true}) {
    Graph kept = std::move(out_.graph);
    out_.graph = before;
    const size_t count = correct_biases(out_.graph, found, last);
    const char* what = last ? "bias correction" : "bias correction but of the last";
    SF_ASSIGN(const bool better, keep_if_better(std::move(kept), what, least));
    if (better) out_.biases = count;
    if (out_.steps.back().after < best_ - kMostLoss) break;
  }
  phases_.end("bias correction");
  return {};
}

}  // namespace sixfold
