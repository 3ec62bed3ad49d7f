// The steps of quantize_well, in order: each takes what the ones before found and leaves what is better.
#pragma once

#include <ctime>
#include <memory>
#include <optional>

#include "sixfold/base/recycled.h"
#include "sixfold/quantize/effort.h"
#include "sixfold/quantize/improve.h"

namespace sixfold {

inline constexpr double kLeastGain = 1.0;  // in decibels, that 16 bits and ranges by kind of op must bring
inline constexpr double kTriedWork = 5e9;  // multiplications of all tries of ranges by kind of op

// CPU seconds since the last phase ended, under the name of this one.
class Phases {
 public:
  explicit Phases(std::vector<std::pair<const char*, double>>& out) : out_(out) {}
  void end(const char* name) {
    const std::clock_t now = std::clock();
    out_.emplace_back(name, static_cast<double>(now - last_) / CLOCKS_PER_SEC);
    last_ = now;
  }
  void skip() { last_ = std::clock(); }  // what is not this one's

 private:
  std::vector<std::pair<const char*, double>>& out_;
  std::clock_t last_ = std::clock();
};

class Improving {
 public:
  Improving(const Graph& real, const Samples& samples, const MakeQuantized& make,
            const ImproveOptions& options);
  Result<Improved> run();

 private:
  Status calibrate_all();
  // rows_ of every step-th sample of a run that the look sees; then those of other processes, too.
  Look begin_rows(size_t step);
  Status end_rows();
  Status look_at_rows();  // in a run of its own, if none did
  // improve_ranges.cpp
  Status choose_ranges();
  Status choose_observer();
  Status choose_ranges_by_op();
  Status choose_room();
  void set_reaches(bool known);
  Status cut_before_sigmoids();
  // improve_widths.cpp
  Status widen();
  Status widen_some();
  Status widen_more();
  Status widen_all();
  Status widen_ends();
  Status widen_last();
  // A choice of ranges and widths: what calibration makes of it without the samples that judge it, and what
  // those say.
  struct Try {
    RangeChoice ranges;
    Wide wide = Wide::none;
    std::vector<Graph> graphs;  // by part (Meter)
    double decibels = -std::numeric_limits<double>::infinity();
  };
  Result<Try> attempt(const RangeChoice& ranges, Wide wide);
  Result<bool> finds(Wide wide) const { return options_.find_wide(out_.seen, wide, now_.wide); }
  Result<double> without_rounded_weights(const Try& what) { return (*meter_)(what.graphs, true); }
  Status settle();  // the best choice, with all samples
  // improve_products.cpp
  Status see_what_rounding_costs();
  Status round_last_weights();
  Status round_weights();
  Status correct();

  // What is meant to better the numbers stays only where it does.
  Result<bool> keep_if_better(Graph before, const char* what, double least = 0);
  void progress(const char* what, size_t done, size_t total) const {
    if (options_.progress) options_.progress(what, done, total);
  }
  RoundingOptions rounding_options() const;
  // What a try takes, all its samples.
  double cost_of_try() const { return cost_of(real_, work_) * static_cast<double>(meter_->samples()); }

  const Graph& real_;
  const Samples& samples_;
  const MakeQuantized& make_;
  const ImproveOptions& options_;
  Improved out_;
  Phases phases_{out_.phases};
  const KeepMemory keep_;
  const double begin_s_;
  size_t count_ = 0, held_ = 0;  // samples
  std::unique_ptr<Samples> calibration_;
  double work_ = 0;
  bool few_ = false;           // samples: nobody knows what is rare
  bool tried_itself_ = false;  // the one sample: no others are thought of
  bool fits_weights_ = false, improves_ = false;
  bool bf16_tries_ = false;     // whether they too round factors, as calibration does
  bool weights_matter_ = true;  // whether better rounding can gain anything
  std::optional<LayerRows> rows_;
  std::vector<Observer> observers_;
  std::unique_ptr<Meter> meter_;
  std::vector<Observations> fits_;           // by part: without the samples that judge; empty: out_.seen
  Try now_;                                  // the best choice so far
  std::vector<std::vector<float>> reaches_;  // Observation::mean_reach of out_.seen and fits_, by value
  double best_ = -std::numeric_limits<double>::infinity();  // decibels of out_.graph
};

}  // namespace sixfold
