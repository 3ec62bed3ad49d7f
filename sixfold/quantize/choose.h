// One row of weights after the other onto its grid, so that what a layer gives of its inputs changes least.
#pragma once

#include <vector>

#include "sixfold/cpu/pool.h"
#include "sixfold/quantize/layer_rows.h"

namespace sixfold {

constexpr size_t kRoundingBlock = 64;  // weights of a channel that are chosen at a time

// What a group of a layer reads, scaled so that H = x' x, and a little more on the diagonal: what few rows do
// not tell must not be believed, and what the operand's own rounding adds is there too.
struct RoundingInputs {
  size_t n = 0, rows = 0;
  bool whole = false;            // h is there; otherwise only its blocks on the diagonal
  std::vector<float> x, xt;      // [rows][n], [n][rows]
  std::vector<float> h;          // [n][n], or [block][kRoundingBlock][kRoundingBlock]
  std::vector<double> diagonal;  // of H
  std::vector<double> mean;      // of the inputs, where a bias takes it back
  float ridge = 0;

  const float* block(size_t begin) const {
    return whole ? &h[begin * n + begin] : &h[begin / kRoundingBlock * kRoundingBlock * kRoundingBlock];
  }
  size_t block_step() const { return whole ? n : kRoundingBlock; }
};

// importance: of rows; empty: all are alike.
RoundingInputs rounding_inputs(const LayerInputs& l, size_t group, double operand_noise, bool shifts,
                               const std::vector<float>& importance, cpu::Pool* pool);

struct RoundingCosts {
  double before = 0, after = 0, power = 0;
};

// Some channels of a group: weights [count][n] to weights on the grid of e with these scales [count][n].
// passes: over all weights, at most; 0: to the nearest.
void choose_rounding(const RoundingInputs& in, const Encoding& e, const std::vector<float>& scales,
                     int passes, const float* w, float* q, std::vector<RoundingCosts>& costs);

}  // namespace sixfold
