#include "sixfold/quantize/rounding.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sixfold/cpu/pool.h"
#include "sixfold/cpu/sgemm.h"
#include "sixfold/quantize/round.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sixfold/quantize/rounding.cpp"
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

}  // namespace sixfold::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sixfold {

HWY_EXPORT(choose_in_block);

namespace {

constexpr size_t kBlock = 64;      // weights of a channel that are chosen at a time
constexpr size_t kChannels = 64;   // of a task
constexpr size_t kLeastRows = 32;  // fewer tell nothing
constexpr int kSweeps = 2;         // over a block before the others hear of it

size_t size(int64_t n) { return static_cast<size_t>(n); }
int64_t length(size_t n) { return static_cast<int64_t>(n); }

// What a group of a layer reads, scaled so that H = x' x, and a little more on the diagonal: what few rows do
// not tell must not be believed, and what the operand's own rounding adds is there too.
struct Inputs {
  size_t n = 0, rows = 0;
  bool whole = false;            // h is there; otherwise only its blocks on the diagonal
  std::vector<float> x, xt;      // [rows][n], [n][rows]
  std::vector<float> h;          // [n][n], or [block][kBlock][kBlock]
  std::vector<double> diagonal;  // of H
  float ridge = 0;

  const float* block(size_t begin) const {
    return whole ? &h[begin * n + begin] : &h[begin / kBlock * kBlock * kBlock];
  }
  size_t block_step() const { return whole ? n : kBlock; }
};

Inputs inputs_of(const LayerInputs& l, size_t group, double operand_noise, cpu::Pool* pool) {
  Inputs in;
  in.n = size(l.inputs);
  in.rows = l.rows();
  in.whole = in.n <= in.rows + in.rows / 4;
  in.x.resize(in.rows * in.n);
  in.xt.resize(in.rows * in.n);
  const float unit = 1 / std::sqrt(static_cast<float>(in.rows));
  const size_t step = size(l.groups) * in.n;
  size_t r = 0;
  for (const std::vector<float>& sample : l.samples)
    for (size_t at = group * in.n; at < sample.size(); at += step, ++r)
      for (size_t i = 0; i < in.n; ++i) in.x[r * in.n + i] = sample[at + i] * unit;
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
  const size_t blocks = (in.n + kBlock - 1) / kBlock;
  in.h.resize(in.whole ? in.n * in.n : blocks * kBlock * kBlock, 0.0f);
  const auto fill = [&](size_t b) {
    const size_t begin = b * kBlock, width = std::min(kBlock, in.n - begin);
    const size_t columns = in.whole ? in.n - begin : width;
    float* to = in.h.data() + (in.whole ? begin * in.n + begin : b * kBlock * kBlock);
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

struct Costs {
  double before = 0, after = 0, power = 0;
};

// Some channels of a group: weights [count][n] to weights on the grid.
class Chooser {
 public:
  Chooser(const Inputs& in, const Encoding& e, size_t count, int passes)
      : in_(in), e_(e), count_(count), passes_(passes), scale_(count * in.n), error_(count * in.n) {}
  float* scales() { return scale_.data(); }

  void run(const float* w, float* q, Costs* costs) {
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
    moved_.resize(count_ * kBlock);
    for (int pass = 0; pass < passes_; ++pass) {
      size_t moves = 0;
      for (size_t at = 0; at < n; at += kBlock) moves += choose(w, at, std::min(kBlock, n - at), low, high);
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
      slopes_.resize(count_ * kBlock);
      cpu::sgemm({.rows = length(count_),
                  .columns = length(width),
                  .inner = length(in_.rows),
                  .a = sums_.data(),
                  .a_step = length(in_.rows),
                  .b = &in_.x[at],
                  .b_step = length(n),
                  .c = slopes_.data(),
                  .c_step = length(kBlock)});
      for (size_t c = 0; c < count_; ++c)
        for (size_t i = 0; i < width; ++i) slopes_[c * kBlock + i] += in_.ridge * error_[c * n + at + i];
    }
    std::fill(moved_.begin(), moved_.end(), 0.0f);
    size_t moves = 0;
    for (size_t c = 0; c < count_; ++c) {
      const size_t first = c * n + at;
      const RoundingRow row{.error = &error_[first],
                            .slope = in_.whole ? &sums_[first] : &slopes_[c * kBlock],
                            .moved = &moved_[c * kBlock],
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
                  .a_step = length(kBlock),
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

  const Inputs& in_;
  const Encoding& e_;
  size_t count_;
  int passes_;
  std::vector<float> scale_, error_;  // [channel][weight]
  std::vector<float> sums_, slopes_, moved_;
};

// The scale, from the given one down to half of it, whose squared error weighs least.
float search(const float* w, const std::vector<double>& diagonal, const Encoding& e, float scale) {
  double best = std::numeric_limits<double>::infinity();
  float found = scale;
  for (int k = 0; k <= 50; ++k) {
    const float s = scale * (1 - 0.01f * static_cast<float>(k));
    double cost = 0;
    for (size_t i = 0; i < diagonal.size() && cost < best; ++i) {
      const float q =
          std::clamp(nearest(w[i] / s), static_cast<float>(e.quant_min), static_cast<float>(e.quant_max));
      const double d = static_cast<double>(w[i]) - static_cast<double>(q) * s;
      cost += d * d * diagonal[i];
    }
    if (cost < best) best = cost, found = s;
  }
  return found;
}

class Improver {
 public:
  Improver(Graph& quantized, const RoundingOptions& options)
      : quantized_(quantized), options_(options), pool_(options.threads) {}

  RoundingReport run(std::span<const LayerInputs> all) {
    std::vector<const LayerInputs*> layers;
    for (const LayerInputs& l : all)
      if (fits(l)) layers.push_back(&l);
    if (options_.most_work > 0) leave_out_dearest(layers);
    RoundingReport report;
    for (const LayerInputs* l : layers) improve(*l, report);
    return report;
  }

 private:
  bool fits(const LayerInputs& l) const {
    if (l.rows() < kLeastRows) return false;
    const Value& w = quantized_.value(quantized_.node(l.node).input(1));
    return w.kind == ValueKind::constant && w.type.dtype == DType::f32 && w.encoding && w.users.size() == 1 &&
           w.encoding->axis <= 0 && w.encoding->quant_max <= 127;
  }

  static double work_of(const LayerInputs& l, int passes) {
    const auto n = static_cast<double>(l.inputs), rows = static_cast<double>(l.rows());
    const double weights = n * static_cast<double>(l.channels * l.groups);
    return weights * std::min(n, 2 * rows) * (passes + 1) +
           static_cast<double>(l.groups) * n * std::min(n, 64.0) * rows;
  }
  void leave_out_dearest(std::vector<const LayerInputs*>& layers) const {
    std::vector<const LayerInputs*> order = layers;
    const auto work = [&](const LayerInputs* l) { return work_of(*l, options_.passes); };
    std::stable_sort(order.begin(), order.end(), [&](auto* a, auto* b) { return work(a) < work(b); });
    double sum = 0;
    for (const LayerInputs* l : order) {
      sum += work(l);
      if (sum > options_.most_work) std::erase(layers, l);
    }
  }

  void improve(const LayerInputs& l, RoundingReport& report) {
    const Node& node = quantized_.node(l.node);
    Value& value = quantized_.value(node.input(1));
    Encoding e = *value.encoding;
    double noise = 0;  // of an operand that is rounded
    if (const auto& x = quantized_.value(node.input(0)).encoding; x && x->axis < 0)
      noise = static_cast<double>(x->scales[0]) * x->scales[0] / 12;
    const Tensor w = to_contiguous(value.constant);
    std::byte* bytes = nullptr;
    Tensor out = Tensor::allocate(DType::f32, w.shape, &bytes);
    const Task task{l, w.shape, w.values<float>().data(), reinterpret_cast<float*>(bytes), e};
    std::vector<Costs> costs(size(l.groups * l.channels));
    if (l.groups > 1) {
      pool_.for_each(size(l.groups), [&](size_t g) {
        const Inputs in = inputs_of(l, g, noise, nullptr);
        for (size_t c = 0; c < size(l.channels); c += kChannels)
          choose(task, in, g * size(l.channels) + c, costs);
      });
    } else {
      const Inputs in = inputs_of(l, 0, noise, &pool_);
      const size_t tasks = (size(l.channels) + kChannels - 1) / kChannels;
      pool_.for_each(tasks, [&](size_t t) { choose(task, in, t * kChannels, costs); });
    }
    for (const Costs& c : costs) {
      report.before += c.before / std::max(c.power, 1e-30);
      report.after += c.after / std::max(c.power, 1e-30);
    }
    value.constant = std::move(out);
    value.encoding = std::move(e);
    ++report.layers;
  }

  struct Task {
    const LayerInputs& layer;
    const Shape& shape;
    const float* w;
    float* q;
    Encoding& e;  // each channel's scale belongs to one task
  };

  void choose(const Task& t, const Inputs& in, size_t first, std::vector<Costs>& costs) const {
    const size_t n = in.n, channels = size(t.layer.channels);
    const size_t count = std::min(kChannels, channels - first % channels);
    if (options_.search_scales && t.e.axis == 0 && !t.e.block)
      for (size_t c = first; c < first + count; ++c)
        t.e.scales[c] = search(t.w + c * n, in.diagonal, t.e, t.e.scales[c]);
    Chooser chooser(in, t.e, count, options_.choose_rounding ? options_.passes : 0);
    const ScaleIndex index(t.shape, t.e);
    for (size_t c = 0; c < count; ++c)
      for (size_t i = 0; i < n; ++i)
        chooser.scales()[c * n + i] =
            t.e.axis < 0 ? t.e.scales[0]
                         : t.e.scales[t.e.block ? index(length((first + c) * n + i)) : first + c];
    chooser.run(t.w + first * n, t.q + first * n, &costs[first]);
  }

  Graph& quantized_;
  const RoundingOptions& options_;
  cpu::Pool pool_;
};

}  // namespace

Result<RoundingReport> improve_weights(Graph& quantized, const LayerRows& rows,
                                       const RoundingOptions& options) {
  return Improver(quantized, options).run(rows.layers());
}

}  // namespace sixfold
#endif
