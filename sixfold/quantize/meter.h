// Tells which of several quantized graphs of one model is best: a few samples, whose float outputs are
// computed once.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "sixfold/quantize/samples.h"
#include "sixfold/quantize/simulate.h"

namespace sixfold {

class Meter {
 public:
  explicit Meter(const Lanes& lanes);
  // outputs: of the float graph for the samples that it takes (spread_samples), where they are known. bf16:
  // tries are run with such factors (watched.h). parts: values that are judged as outputs are, besides those.
  static Result<std::unique_ptr<Meter>> create(const Graph& real, const Samples& samples, size_t count,
                                               size_t threads, std::vector<std::vector<Tensor>> outputs = {},
                                               bool bf16 = false, std::vector<ValueId> parts = {});
  // Decibels of the outputs (decibels_of). Graphs that differ only in the grids of values are run by the
  // models of the one before. real_weights: weights of products are not rounded, so it tells what rounding
  // costs.
  Result<double> operator()(const Graph& quantized, bool real_weights = false) {
    return (*this)(std::span(&quantized, 1), real_weights);
  }
  // The same, sample i by graph i modulo their number.
  Result<double> operator()(std::span<const Graph> by_part, bool real_weights = false);
  // Gives the memory of its models back, until it is asked again.
  void rest();
  double worst() const { return worst_; }  // output's decibels, of the last graph
  size_t samples() const { return samples_.size(); }
  size_t outputs() const { return static_cast<size_t>(std::count(judged_.begin(), judged_.end(), true)); }

 private:
  struct Sample {
    std::vector<Tensor> inputs, outputs;
  };
  struct Lane {
    std::unique_ptr<cpu::Pool> pool;
    std::unique_ptr<Simulation> model;
    Status status;
  };
  Status prepare(const Graph& quantized, bool real_weights);

  std::vector<Sample> samples_;
  std::vector<ValueId> parts_;  // outputs besides the graph's
  std::vector<bool> judged_;    // by output: floats
  cpu::Pool pool_;
  std::vector<Lane> lanes_;
  Graph made_of_;  // what the lanes' models are
  bool made_real_ = false;
  bool bf16_ = false;
  double worst_ = 200;
};

}  // namespace sixfold
