// Float reductions on the SIMD blocks of cpu/rows.h. Two shapes of loop: the axis of stride 1 is reduced
// (rows), or it is kept and rows are added up side by side (columns).
#include <cmath>
#include <limits>

#include "sixfold/cpu/rows.h"
#include "sixfold/cpu/split.h"
#include "sixfold/ops/reduce/walk.h"

namespace sixfold::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <typename Row>
double add_rows(const Walk& w, const float* x, const Row& row) {
  double total = 0;
  for_offsets(w.reduced, w.reduced.size() - 1, [&](int64_t offset) { total += row(x + offset); });
  return total;
}

// One output, its elements in runs of stride 1.
float reduce_rows(Op op, const Walk& w, const float* x, double correction) {
  const int64_t run = w.reduced.back().extent;
  const auto count = static_cast<double>(w.count);
  if (is<Op::amax>(op) || is<Op::amin>(op)) {
    float best = op == Op::amax ? -kInfinity : kInfinity;
    for_offsets(w.reduced, w.reduced.size() - 1, [&](int64_t offset) {
      const float v = op == Op::amax ? max_row(x + offset, run) : min_row(x + offset, run);
      if (std::isnan(v) || (op == Op::amax ? v > best : v < best)) best = std::isnan(best) ? best : v;
    });
    return best;
  }
  const double sum = add_rows(w, x, [&](const float* row) { return sum_row(row, run); });
  if (op == Op::sum) return static_cast<float>(sum);
  if (op == Op::mean) return static_cast<float>(sum / count);
  // var: about the mean rounded to float, then corrected for what the rounding left
  const auto mean = static_cast<float>(sum / count);
  Moments m;
  for_offsets(w.reduced, w.reduced.size() - 1, [&](int64_t offset) {
    const Moments part = moments_row(x + offset, run, mean);
    m.first += part.first;
    m.second += part.second;
  });
  return static_cast<float>(variance(m.second - m.first * m.first / count, w.count, correction));
}

// f(rows) for every slab of rows behind the outputs at x.
template <typename F>
void for_slabs(const Walk& w, const float* x, const F& f) {
  for_offsets(w.reduced, w.reduced.size() - 1, [&](int64_t offset) { f(x + offset); });
}

// `width` <= kStrip neighbouring outputs.
void reduce_columns(Op op, const Walk& w, const float* x, float* out, int64_t width, double correction) {
  const WalkAxis& rows = w.reduced.back();
  const auto count = static_cast<double>(w.count);
  if (is<Op::amax>(op) || is<Op::amin>(op)) {
    std::fill_n(out, width, op == Op::amax ? -kInfinity : kInfinity);
    for_slabs(w, x, [&](const float* slab) {
      (op == Op::amax ? max_columns : min_columns)(slab, rows.extent, rows.in_stride, width, out);
    });
    return;
  }
  double sums[kStrip] = {};
  for_slabs(w, x, [&](const float* slab) { sum_columns(slab, rows.extent, rows.in_stride, width, sums); });
  if (op == Op::sum || op == Op::mean) {
    for (int64_t i = 0; i < width; ++i)
      out[i] = static_cast<float>(op == Op::sum ? sums[i] : sums[i] / count);
    return;
  }
  float means[kStrip];
  double first[kStrip] = {}, second[kStrip] = {};
  for (int64_t i = 0; i < width; ++i) means[i] = static_cast<float>(sums[i] / count);
  for_slabs(w, x, [&](const float* slab) {
    moments_columns(slab, rows.extent, rows.in_stride, width, means, first, second);
  });
  for (int64_t i = 0; i < width; ++i)
    out[i] = static_cast<float>(variance(second[i] - first[i] * first[i] / count, w.count, correction));
}

}  // namespace

std::unique_ptr<Kernel> reduce_f32(Op op, Walk walk, double correction) {
  if (walk.inner_reduced) {
    const int64_t grain = grain_for(walk.count);
    return make_kernel([op, walk = std::move(walk), correction, grain](const Buffers& b) {
      b.pool.for_ranges(walk.outputs, grain, [&](int64_t begin, int64_t end) {
        for (int64_t o = begin; o < end; ++o) {
          const Place p = place_of(walk.kept, walk.kept.size(), o);
          b.output<float>()[p.out] = reduce_rows(op, walk, b.input<float>(0) + p.in, correction);
        }
      });
      return ok_status();
    });
  }
  if (walk.reduced.empty()) walk.reduced.push_back({});
  const WalkAxis strip = walk.kept.back();
  const int64_t strips = (strip.extent + kStrip - 1) / kStrip;
  const int64_t outer = walk.outputs / strip.extent;
  const int64_t grain = grain_for(walk.count * std::min(strip.extent, kStrip));
  return make_kernel([=, walk = std::move(walk)](const Buffers& b) {
    b.pool.for_ranges(outer * strips, grain, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const Place p = place_of(walk.kept, walk.kept.size() - 1, t / strips);
        const int64_t first = t % strips * kStrip;
        const int64_t width = std::min(kStrip, strip.extent - first);
        const float* x = b.input<float>(0) + p.in + first;
        float* out = b.output<float>() + p.out + first * strip.out_stride;
        if (strip.out_stride == 1) {
          reduce_columns(op, walk, x, out, width, correction);
        } else {
          float values[kStrip];
          reduce_columns(op, walk, x, values, width, correction);
          for (int64_t i = 0; i < width; ++i) out[i * strip.out_stride] = values[i];
        }
      }
    });
    return ok_status();
  });
}

}  // namespace sixfold::cpu
