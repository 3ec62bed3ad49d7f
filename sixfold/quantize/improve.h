// Quantization from samples: ranges, then better weights and biases, each by an option; and what it loses.
#pragma once

#include <functional>

#include "sixfold/quantize/bias.h"
#include "sixfold/quantize/calibrate.h"
#include "sixfold/quantize/meter.h"
#include "sixfold/quantize/plan.h"
#include "sixfold/quantize/rounding.h"
#include "sixfold/quantize/simulate.h"

namespace sixfold {

// Which nodes compute with 16 bits where 8 were asked for, or with halves where 16 were.
enum class Wide : uint8_t { none, some, more, first, last, ends, all };

struct Improved;

struct ImproveOptions {
  // The one that gives most decibels is taken; one: it.
  std::vector<Observer> observers;
  // With less than 8 samples: min_max of several observers (with one sample in any case), and weights are
  // rounded to the nearest.
  bool automatic = false;
  bool correct_biases = true;
  bool search_scales = false;
  bool choose_rounding = false;
  double most_work = 0;           // of RoundingOptions
  bool holds_back = true;         // samples, for judge
  bool look_at_channels = false;  // of the first sample: Improved::seen has their ranges
  size_t threads = 0;
  // Where the CPU multiplies bfloat16 faster (conv.h): calibration of all but small models rounds factors to
  // it, and of larger ones so do tries of 8-bit activations. What is told of the accuracy is of f32 in any
  // case.
  bool bf16 = true;
  // Whether any nodes are to compute with more bits. some: where 8 bits tell too little, or with halves where
  // 16 do; the others with 8 bits only. None: none are, or they would take long. now: what is wide already,
  // as long as which `more` may take. Asked once of each.
  bool halves = false;
  std::function<Result<bool>(const Observations& seen, Wide which, Wide now)> find_wide;
  // Parts of outputs that judge as outputs do; null: none.
  std::function<Result<std::vector<ValueId>>(const Observations& seen)> find_parts;
  // Asked once ranges and widths are chosen, with the decibels of a try: false where nobody wants the rest.
  std::function<Result<bool>(const Improved& so_far, double decibels)> goes_on;
  std::function<void(std::string_view what, size_t done, size_t total)> progress;
  std::function<void(const std::string& what)> doubt;  // right after calibration (doubts.h)
};

// Held back from calibration, to be judged by: an eighth of the samples, when there are 16 or more.
size_t held_back(size_t samples);

struct Improved {
  bool stopped = false;  // by ImproveOptions::goes_on: there is nothing else here
  Graph graph;           // quantized
  Observations seen;
  RangeChoice ranges;
  std::vector<std::pair<Observer, double>> tried;  // decibels
  struct Step {  // an improvement: decibels without it and with it; kept where it gains
    const char* what;
    double before, after;
    bool kept;
  };
  std::vector<Step> steps;
  RoundingReport rounding;
  size_t biases = 0;
  Wide wide = Wide::none;
  bool bf16 = false;        // factors of calibration were rounded to it
  bool bf16_tells = false;  // those of tries too, and it is so far from float that judges may do so
  std::shared_ptr<const cpu::SharePacked> packed;  // of the float graph, for judges
  size_t calibrated = 0, held_back = 0;            // samples; none held back: those of calibration judge
  double seconds = 0, calibrate_seconds = 0;
  std::vector<std::pair<const char*, double>> phases;  // CPU seconds of this process, all threads
};

// Whether calibration rounds factors to bfloat16 (ImproveOptions::bf16).
bool calibrates_in_bf16(const Graph& real, const ImproveOptions& options);

// make: a copy of the graph with encodings, by what was seen, how ranges are to be chosen and what is wide.
using MakeQuantized =
    std::function<Result<Graph>(const Observations& seen, const RangeChoice& ranges, Wide which)>;
Result<Improved> quantize_well(const Graph& real, const Samples& samples, const MakeQuantized& make,
                               const ImproveOptions& options);

struct JudgeOptions {
  size_t held_back = 0;
  bool bf16 = false;  // rounds factors as tries do, where that changes nothing of what is told
  size_t threads = 0;
};

// What the quantized graph loses, by a few of the samples: of those that were held back, if some were.
Result<Accuracy> judge(const Graph& real, const Graph& quantized, const Samples& samples,
                       const JudgeOptions& options);

}  // namespace sixfold
