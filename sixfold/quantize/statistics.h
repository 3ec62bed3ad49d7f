// Numbers of many floats: extremes with SIMD, and histograms whose bins are the same whatever the order.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "sixfold/quantize/ranks.h"

namespace sixfold {

struct Extremes {
  float min = std::numeric_limits<float>::infinity();
  float max = -std::numeric_limits<float>::infinity();
  bool finite = true;  // every element; when false, min and max may miss some
};
Extremes extremes_of(const float* x, int64_t n);

// The powers of what was wanted and of its distance from what came, both within the range that counts.
struct ErrorSums {
  double power = 0, error = 0;
};
ErrorSums error_sums(const float* want, const float* got, int64_t n, float low, float high);

// Counts of elements in bins of width 2^exponent that begin at multiples of it: when values come that do not
// fit, two bins become one. So the counts depend on what was added and not on the order, exactly.
class Histogram {
 public:
  static constexpr int64_t kMostBins = 2048;
  bool empty() const { return counts_.empty(); }
  void cover(float low, float high);  // finite
  // Elements in the range that is covered; others are left out.
  void add(const float* x, int64_t n);
  void merge(const Histogram& other);
  void pack(Packer& to) const;
  static Histogram unpack(Unpacker& from);

  double low() const;
  double high() const;
  const std::vector<uint64_t>& counts() const { return counts_; }
  friend bool operator==(const Histogram&, const Histogram&) = default;

 private:
  int exponent_ = -200;
  int64_t first_ = 0;  // of the bin at counts_[0], in bins from zero
  std::vector<uint64_t> counts_;
  void coarsen(int exponent);
  void widen(int64_t first, int64_t last);
};

}  // namespace sixfold
