// What calibration saw of each value: where the quantizer and the calibrator meet.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "sixfold/base/result.h"

namespace sixfold {

struct Range {
  float min = 0, max = 0;
  friend bool operator==(const Range&, const Range&) = default;
};

// How a range is made of what was seen.
enum class Observer : uint8_t { min_max, moving_average, mse, entropy, percentile };
std::string_view to_text(Observer observer);
std::optional<Observer> observer_of(std::string_view text);

// What is below it is there to be forgotten by a softmax.
inline constexpr float kMask = -5000;

// So far below the largest of its row, softmax makes nothing of an element: e^-12 is under half a step of 16
// bits.
inline constexpr float kForgotten = 12;

struct Observation {
  float min = std::numeric_limits<float>::infinity();  // of the finite elements; above max: none were seen
  float max = -std::numeric_limits<float>::infinity();
  // The smallest element above kMask: masks of attention (-10000, -3.4e38, -inf) set no range.
  float unmasked_min = std::numeric_limits<float>::infinity();
  // The least of the rows' largest elements, for what a softmax reads: what is far below it has no weight in
  // any row. Infinity: not known.
  float row_max = std::numeric_limits<float>::infinity();
  float average_min = 0, average_max = 0;  // moving averages over samples
  float mean_reach = 0;  // the mean of what is furthest from zero in each sample; 0: nobody asked
  // How many elements lay in each part of [low, high]; empty: nobody asked.
  std::vector<double> histogram;
  float low = 0, high = 0;
  uint64_t count = 0;           // elements
  bool non_finite = false;      // an infinity or a NaN was among them
  std::vector<Range> channels;  // by index of the channel axis, when asked for
  bool seen() const { return min <= max; }
};

struct Observations {
  std::vector<Observation> values;  // by ValueId::index of the graph that was calibrated
  uint64_t samples = 0;
};

inline constexpr Range kEverything{-std::numeric_limits<float>::infinity(),
                                   std::numeric_limits<float>::infinity()};

// The range that an encoding of so many bits should cover: has zero in it and is never empty. Symmetric: it
// will be made as wide on either side. live: what lies beyond it is as good as its end (live.h). can_be:
// what it is in any case (bounds.h), where few numbers were seen and 16 bits leave more room; null: the usual
// room.
Range choose_range(const Observation& seen, Observer observer, int bits, bool symmetric,
                   Range live = kEverything, const Range* can_be = nullptr);

}  // namespace sixfold
