// What is kept of every value while samples run: the part of one thread, and how it looks at a value.
#pragma once

#include "sixfold/cpu/kernel.h"
#include "sixfold/graph/graph.h"
#include "sixfold/quantize/observations.h"
#include "sixfold/quantize/statistics.h"

namespace sixfold {

struct Seen {
  float min = std::numeric_limits<float>::infinity(), max = -min;
  float unmasked_min = std::numeric_limits<float>::infinity();
  float row_max = std::numeric_limits<float>::infinity();
  bool non_finite = false;
  uint64_t count = 0;

  void merge(const Seen& o);
};

// By value: of the sample that runs, and of all that ran.
struct SeenValues {
  std::vector<Seen> sample, all;
  std::vector<Histogram> histograms;
  std::vector<std::vector<Range>> channels;

  explicit SeenValues(size_t values = 0)
      : sample(values), all(values), histograms(values), channels(values) {}
  // Of all that ran.
  void merge(const SeenValues& other);
  void pack(Packer& to) const;
  static SeenValues unpack(Unpacker& from, size_t values);
};

// The channel axis of a value: 1 of images, the last one of what linear layers take and give.
size_t channel_axis(size_t rank);

class Looker {
 public:
  Looker(const Graph& graph, bool histograms);
  // A dense f32 value of a sample. Fails where no range covers it. channels: their ranges too.
  Status look(ValueId v, const cpu::TensorDesc& desc, const float* x, bool channels, SeenValues& to) const;
  bool is_masked(size_t value) const { return masked_[value]; }
  bool has_rows(size_t value) const { return rows_[value]; }  // of scores that a softmax reads

 private:
  Error not_finite(ValueId v, const char* what) const;
  Status look_closely(Seen& seen, ValueId v, const float* x, int64_t n) const;

  const Graph& graph_;
  bool histograms_;
  std::vector<bool> masked_, rows_;  // by value
};

}  // namespace sixfold
