// Calibration: runs the float graph on samples and keeps what each value was.
#pragma once

#include <functional>

#include "sixfold/cpu/kernel.h"
#include "sixfold/graph/graph.h"
#include "sixfold/quantize/observations.h"
#include "sixfold/quantize/samples.h"

namespace sixfold {

class Watched;

// Sees every value of every sample too, several samples at once.
using Look = std::function<void(size_t sample, ValueId value, const cpu::TensorDesc& desc, const void* data)>;

struct CalibrateOptions {
  size_t threads = 0;                 // 0: one per core
  bool histograms = true;             // for every observer but min-max and moving average
  bool channels = false;              // ranges by channel
  size_t channel_samples = SIZE_MAX;  // in so many of the first samples
  bool bf16 = false;                  // products as Watched has them with it
  // Samples to judge by are in one of so many parts; part_of gives `parts` for the others.
  size_t parts = 0;
  std::function<size_t(size_t sample)> part_of;
  std::function<void(size_t done, size_t total)> progress;
  Look look;
  std::function<void(size_t sample, const Watched& model)> ran;  // with its outputs, several at once
};

// Observations of every float value: inputs, states, constants and what nodes compute, except for values
// inside a product (watched.h). The same for any number of threads. Fails before the first run when a sample
// does not fit the model, and at the first NaN or infinity with the layer that made it; masks of attention
// may be infinite.
Result<Observations> calibrate(const Graph& graph, const Samples& samples,
                               const CalibrateOptions& options = {});

// The same with what all samples but those of a part showed, for each part of CalibrateOptions.
struct PartedObservations {
  Observations all;
  std::vector<Observations> without;
};
Result<PartedObservations> calibrate_in_parts(const Graph& graph, const Samples& samples,
                                              const CalibrateOptions& options);

// Every sample against the model's inputs, without running it.
Status check_samples(const Graph& graph, const Samples& samples);

}  // namespace sixfold
