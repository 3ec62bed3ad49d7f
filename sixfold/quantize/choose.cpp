#include "sixfold/quantize/choose.h"

#include <algorithm>
#include <cmath>

#include "sixfold/cpu/sgemm.h"
#include "sixfold/quantize/round.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sixfold/quantize/choose.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#ifndef SIXFOLD_QUANTIZE_ROUNDING_ROW
#define SIXFOLD_QUANTIZE_ROUNDING_ROW
namespace sixfold {
// A block of one channel's weights: what they are off, how far each step goes, and half the slope of the
// cost.
struct RoundingRow {
  float *error, *slope, *moved;  // moved: the sum of steps that were taken
  const float *weight, *scale, *h;
  size_t n, h_step;
  float low, high;
};
}  // namespace sixfold
#endif

HWY_BEFORE_NAMESPACE();
namespace sixfold::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Each weight in turn to its other neighbour on the grid, if the whole gets better. Returns how many went.
size_t choose_in_block(const RoundingRow& r) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t moves = 0;
  for (size_t i = 0; i < r.n; ++i) {
    const float step = r.error[i] > 0 ? -r.scale[i] : r.scale[i];
    const float* row = r.h + i * r.h_step;
    if (!(2 * step * r.slope[i] + step * step * row[i] < 0)) continue;
    const float to = r.error[i] + step;
    const float level = (r.weight[i] + to) / r.scale[i];
    if (std::fabs(to) > r.scale[i] || level < r.low - 0.5f || level > r.high + 0.5f) continue;
    r.error[i] = to;
    r.moved[i] += step;
    ++moves;
    const auto by = hn::Set(d, step);
    size_t k = 0;
    for (; k + lanes <= r.n; k += lanes)
      hn::StoreU(hn::MulAdd(by, hn::LoadU(d, row + k), hn::LoadU(d, r.slope + k)), d, r.slope + k);
    for (; k < r.n; ++k) r.slope[k] += step * row[k];
  }
  return moves;
}

// The same for two weights at a time, where one alone gains nothing.
size_t choose_pairs(const RoundingRow& r) {
  size_t moves = 0;
  const auto step_of = [&](size_t i) { return r.error[i] > 0 ? -r.scale[i] : r.scale[i]; };
  const auto may = [&](size_t i, float step) {
    const float to = r.error[i] + step, level = (r.weight[i] + to) / r.scale[i];
    return std::fabs(to) <= r.scale[i] && level >= r.low - 0.5f && level <= r.high + 0.5f;
  };
  const auto move = [&](size_t i, float step) {
    r.error[i] += step;
    r.moved[i] += step;
    const float* row = r.h + i * r.h_step;
    for (size_t k = 0; k < r.n; ++k) r.slope[k] += step * row[k];
  };
  for (size_t i = 0; i + 1 < r.n; ++i) {
    float step = step_of(i);
    if (!may(i, step)) continue;
    const float* row = r.h + i * r.h_step;
    float alone = 2 * step * r.slope[i] + step * step * row[i];
    for (size_t j = i + 1; j < r.n; ++j) {
      const float other = step_of(j);
      const float both =
          alone + 2 * other * (r.slope[j] + step * row[j]) + other * other * r.h[j * r.h_step + j];
      if (!(both < 0) || !may(j, other)) continue;
      move(i, step);
      move(j, other);
      moves += 2;
      step = step_of(i);
      if (!may(i, step)) break;
      alone = 2 * step * r.slope[i] + step * step * row[i];
    }
  }
  return moves;
}

}  // namespace sixfold::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sixfold {

HWY_EXPORT(choose_in_block);
HWY_EXPORT(choose_pairs);

namespace {

constexpr int kSweeps = 2;     // over a block before the others hear of it
constexpr size_t kPairs = 32;  // most weights of a row that are tried two at a time
// How much of the inputs' mean still counts when a bias takes back what it makes of the errors: of few rows
// the mean is not known exactly.
constexpr float kKeptMean = 0.2f;

size_t size(int64_t n) { return static_cast<size_t>(n); }
int64_t length(size_t n) { return static_cast<int64_t>(n); }

class Chooser {
 public:
  Chooser(const RoundingInputs& in, const Encoding& e, const std::vector<float>& scales, int passes)
      : in_(in),
        e_(e),
        count_(scales.size() / in.n),
        passes_(passes),
        scale_(scales),
        error_(scales.size()) {}

  void run(const float* w, float* q, RoundingCosts* costs) {
    const size_t n = in_.n;
    const auto low = static_cast<float>(e_.quant_min), high = static_cast<float>(e_.quant_max);
    for (size_t i = 0; i < count_ * n; ++i)
      error_[i] = std::clamp(nearest(w[i] / scale_[i]), low, high) * scale_[i] - w[i];
    begin();
    for (size_t c = 0; c < count_; ++c) {
      costs[c].before = cost(c);
      for (size_t i = 0; i < n; ++i)
        costs[c].power += static_cast<double>(w[c * n + i]) * w[c * n + i] * in_.diagonal[i];
    }
    moved_.resize(count_ * kRoundingBlock);
    for (int pass = 0; pass < passes_; ++pass) {
      size_t moves = 0;
      for (size_t at = 0; at < n; at += kRoundingBlock)
        moves += choose(w, at, std::min(kRoundingBlock, n - at), low, high);
      if (moves * 1000 < count_ * n) break;
    }
    for (size_t c = 0; c < count_; ++c) costs[c].after = cost(c);
    for (size_t i = 0; i < count_ * n; ++i)
      q[i] = std::clamp(nearest((w[i] + error_[i]) / scale_[i]), low, high) * scale_[i];
  }

 private:
  // Slopes of all weights, or what the errors make of each row of inputs.
  void begin() {
    const size_t width = in_.whole ? in_.n : in_.rows;
    sums_.resize(count_ * width);
    cpu::sgemm({.rows = length(count_),
                .columns = length(width),
                .inner = length(in_.n),
                .a = error_.data(),
                .a_step = length(in_.n),
                .b = in_.whole ? in_.h.data() : in_.xt.data(),
                .b_step = length(width),
                .c = sums_.data(),
                .c_step = length(width)});
  }
  double cost(size_t c) const {
    const float* e = &error_[c * in_.n];
    double sum = 0;
    if (in_.whole) {
      for (size_t i = 0; i < in_.n; ++i) sum += static_cast<double>(e[i]) * sums_[c * in_.n + i];
      return sum;
    }
    for (size_t r = 0; r < in_.rows; ++r)
      sum += static_cast<double>(sums_[c * in_.rows + r]) * sums_[c * in_.rows + r];
    for (size_t i = 0; i < in_.n; ++i) sum += static_cast<double>(in_.ridge) * e[i] * e[i];
    return sum;
  }

  size_t choose(const float* w, size_t at, size_t width, float low, float high) {
    const size_t n = in_.n;
    if (!in_.whole) {
      slopes_.resize(count_ * kRoundingBlock);
      cpu::sgemm({.rows = length(count_),
                  .columns = length(width),
                  .inner = length(in_.rows),
                  .a = sums_.data(),
                  .a_step = length(in_.rows),
                  .b = &in_.x[at],
                  .b_step = length(n),
                  .c = slopes_.data(),
                  .c_step = length(kRoundingBlock)});
      for (size_t c = 0; c < count_; ++c)
        for (size_t i = 0; i < width; ++i)
          slopes_[c * kRoundingBlock + i] += in_.ridge * error_[c * n + at + i];
    }
    std::fill(moved_.begin(), moved_.end(), 0.0f);
    size_t moves = 0;
    for (size_t c = 0; c < count_; ++c) {
      const size_t first = c * n + at;
      const RoundingRow row{.error = &error_[first],
                            .slope = in_.whole ? &sums_[first] : &slopes_[c * kRoundingBlock],
                            .moved = &moved_[c * kRoundingBlock],
                            .weight = w + first,
                            .scale = &scale_[first],
                            .h = in_.block(at),
                            .n = width,
                            .h_step = in_.block_step(),
                            .low = low,
                            .high = high};
      for (int sweep = 0; sweep < kSweeps; ++sweep) {
        const size_t now = HWY_DYNAMIC_DISPATCH(choose_in_block)(row);
        moves += now;
        if (now == 0) break;
      }
      if (n <= kPairs) moves += HWY_DYNAMIC_DISPATCH(choose_pairs)(row);
    }
    if (moves > 0) hear(at, width);
    return moves;
  }

  // The rest learns what moved in a block; the block knows.
  void hear(size_t at, size_t width) {
    const size_t n = in_.n, step = in_.whole ? n : in_.rows;
    const auto add = [&](size_t from, size_t to) {
      if (from >= to) return;
      cpu::sgemm({.rows = length(count_),
                  .columns = length(to - from),
                  .inner = length(width),
                  .a = moved_.data(),
                  .a_step = length(kRoundingBlock),
                  .b = (in_.whole ? in_.h.data() : in_.xt.data()) + at * step + from,
                  .b_step = length(step),
                  .c = &sums_[from],
                  .c_step = length(step),
                  .beta = 1});
    };
    if (!in_.whole) return add(0, in_.rows);
    add(0, at);
    add(at + width, n);
  }

  const RoundingInputs& in_;
  const Encoding& e_;
  size_t count_;
  int passes_;
  const std::vector<float>& scale_;  // [channel][weight]
  std::vector<float> error_;
  std::vector<float> sums_, slopes_, moved_;
};

}  // namespace

RoundingInputs rounding_inputs(const LayerInputs& l, size_t group, double operand_noise, bool shifts,
                               const std::vector<float>& importance, cpu::Pool* pool) {
  RoundingInputs in;
  in.n = size(l.inputs);
  in.rows = l.rows();
  in.whole = in.n <= in.rows + in.rows / 4;
  in.x.resize(in.rows * in.n);
  in.xt.resize(in.rows * in.n);
  const float unit = 1 / std::sqrt(static_cast<float>(in.rows));
  const size_t step = size(l.groups) * in.n;
  size_t r = 0;
  for (const std::span<const float> sample : l.samples)
    for (size_t at = group * in.n; at < sample.size(); at += step, ++r)
      for (size_t i = 0; i < in.n; ++i) in.x[r * in.n + i] = sample[at + i] * unit;
  if (shifts) {
    const float kept = l.taps > 1 ? 1.0f : kKeptMean;  // one bias cannot take back what each tap does
    in.mean.assign(in.n, 0.0);
    double all = 0;
    for (r = 0; r < in.rows; ++r) {
      const double counts = importance.empty() ? 1.0 : static_cast<double>(importance[r]) * importance[r];
      all += counts * unit;
      for (size_t i = 0; i < in.n; ++i) in.mean[i] += counts * in.x[r * in.n + i];
    }
    for (double& m : in.mean) m /= std::max(all, 1e-30);
    for (r = 0; r < in.rows; ++r)
      for (size_t i = 0; i < in.n; ++i)
        in.x[r * in.n + i] -= (1 - kept) * unit * static_cast<float>(in.mean[i]);
  }
  for (r = 0; r < importance.size(); ++r)
    for (size_t i = 0; i < in.n; ++i) in.x[r * in.n + i] *= importance[r];
  for (size_t i = 0; i < in.n; i += 16)
    for (r = 0; r < in.rows; ++r)
      for (size_t k = i; k < std::min(i + 16, in.n); ++k) in.xt[k * in.rows + r] = in.x[r * in.n + k];
  in.diagonal.resize(in.n);
  double mean = 0;
  for (size_t i = 0; i < in.n; ++i) {
    for (r = 0; r < in.rows; ++r)
      in.diagonal[i] += static_cast<double>(in.xt[i * in.rows + r]) * in.xt[i * in.rows + r];
    mean += in.diagonal[i] / static_cast<double>(in.n);
  }
  in.ridge = static_cast<float>(0.03 * mean + operand_noise + 1e-12);
  for (double& x : in.diagonal) x += in.ridge;
  const size_t blocks = (in.n + kRoundingBlock - 1) / kRoundingBlock;
  in.h.resize(in.whole ? in.n * in.n : blocks * kRoundingBlock * kRoundingBlock, 0.0f);
  const auto fill = [&](size_t b) {
    const size_t begin = b * kRoundingBlock, width = std::min(kRoundingBlock, in.n - begin);
    const size_t columns = in.whole ? in.n - begin : width;
    float* to = in.h.data() + (in.whole ? begin * in.n + begin : b * kRoundingBlock * kRoundingBlock);
    const size_t to_step = in.block_step();
    cpu::sgemm({.rows = length(width),
                .columns = length(columns),
                .inner = length(in.rows),
                .a = &in.xt[begin * in.rows],
                .a_step = length(in.rows),
                .b = &in.x[begin],
                .b_step = length(in.n),
                .c = to,
                .c_step = length(to_step)});
    for (size_t i = 0; i < width; ++i) to[i * to_step + i] += in.ridge;
    for (size_t i = 0; in.whole && i < width; ++i)
      for (size_t k = width; k < columns; ++k) in.h[(begin + k) * in.n + begin + i] = to[i * to_step + k];
  };
  if (pool)
    pool->for_each(blocks, fill);
  else
    for (size_t b = 0; b < blocks; ++b) fill(b);
  return in;
}

void choose_rounding(const RoundingInputs& in, const Encoding& e, const std::vector<float>& scales,
                     int passes, const float* w, float* q, std::vector<RoundingCosts>& costs) {
  costs.assign(scales.size() / in.n, {});
  Chooser(in, e, scales, passes).run(w, q, costs.data());
}

}  // namespace sixfold
#endif
