// softmax and log_softmax along one axis.
//
// Subtracting the maximum keeps exp() in [0, 1]. A maximum that is not finite (NaN, an infinity, or a row of
// -inf) makes every result of its row NaN, as in torch.
#include <cmath>
#include <limits>

#include "sixfold/cpu/kernel.h"
#include "sixfold/cpu/rows.h"
#include "sixfold/cpu/split.h"
#include "sixfold/cpu/vector_math.h"

namespace sixfold::cpu {
namespace {

constexpr int64_t kShortRow = 32;   // elements; a longer row is worth SIMD calls of its own
constexpr int64_t kShortRows = 64;  // rows at once

void softmax_row(const float* x, float* y, int64_t n, bool log) {
  const float max = max_row(x, n);
  if (!std::isfinite(max)) {
    std::fill_n(y, n, std::numeric_limits<float>::quiet_NaN());
    return;
  }
  const float sum = exp_sum_f32(x, 1.0f, max, y, static_cast<size_t>(n));
  if (log) {
    // (x - max) - log(sum): adding max to log(sum) first would round away small differences of large inputs.
    affine_row(x, y, n, max, 1.0f, -std::log(sum));
  } else {
    affine_row(y, y, n, 0.0f, 1.0f / sum, 0.0f);
  }
}

// Several short rows: one call of exp for all of them.
void softmax_short_rows(const float* x, float* y, int64_t rows, int64_t n, bool log) {
  float max[kShortRows], sum[kShortRows];
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = x + r * n;
    max[r] = row[0];
    for (int64_t i = 1; i < n; ++i) max[r] = row[i] > max[r] || std::isnan(row[i]) ? row[i] : max[r];
    for (int64_t i = 0; i < n; ++i) y[r * n + i] = row[i] - max[r];
  }
  exp_f32(y, y, static_cast<size_t>(rows * n));
  for (int64_t r = 0; r < rows; ++r) {
    sum[r] = 0;
    for (int64_t i = 0; i < n; ++i) sum[r] += y[r * n + i];
    const float last = log ? std::log(sum[r]) : 1.0f / sum[r];
    for (int64_t i = 0; i < n; ++i) y[r * n + i] = log ? (x[r * n + i] - max[r]) - last : y[r * n + i] * last;
  }
}

// The first `width` columns of x[extent][inner].
void softmax_columns(const float* x, float* y, const AxisSplit& split, int64_t width, bool log) {
  float max[kStrip], shift[kStrip], one[kStrip], zero[kStrip] = {};
  std::fill_n(max, width, -std::numeric_limits<float>::infinity());
  std::fill_n(one, width, 1.0f);
  max_columns(x, split.extent, split.inner, width, max);
  for (int64_t c = 0; c < width; ++c) shift[c] = -max[c];
  for (int64_t i = 0; i < split.extent; ++i) {
    float* row = y + i * split.inner;
    affine_each(x + i * split.inner, row, width, one, shift);
    exp_f32(row, row, static_cast<size_t>(width));
  }
  double sums[kStrip] = {};
  sum_columns(y, split.extent, split.inner, width, sums);
  float last[kStrip];
  for (int64_t c = 0; c < width; ++c) last[c] = static_cast<float>(log ? -std::log(sums[c]) : 1.0 / sums[c]);
  for (int64_t i = 0; i < split.extent; ++i) {
    float* row = y + i * split.inner;
    if (log) affine_each(x + i * split.inner, row, width, one, shift);
    affine_each(row, row, width, log ? one : last, log ? last : zero);
  }
}

template <typename T>
void softmax_column(const T* x, T* y, const AxisSplit& split, bool log) {
  const auto at = [&](int64_t i) { return i * split.inner; };
  T max = -std::numeric_limits<T>::infinity();
  for (int64_t i = 0; i < split.extent; ++i)
    if (x[at(i)] > max || std::isnan(x[at(i)])) max = std::isnan(max) ? max : x[at(i)];
  T sum = 0;
  for (int64_t i = 0; i < split.extent; ++i) sum += std::exp(x[at(i)] - max);
  for (int64_t i = 0; i < split.extent; ++i)
    y[at(i)] = log ? x[at(i)] - max - std::log(sum) : std::exp(x[at(i)] - max) / sum;
}

// log_softmax of halves along the last axis. torch keeps the sum and its logarithm in the input's type there,
// an error of up to half a unit of the logarithm that every result shares; along other axes it computes in
// float.
template <typename T>
void log_softmax_half_row(const T* x, T* y, int64_t n) {
  constexpr int64_t kChunk = 256;
  float max = -std::numeric_limits<float>::infinity(), sum = 0, chunk[kChunk];
  for (int64_t i = 0; i < n; ++i) {
    const float v = x[i];
    if (v > max || std::isnan(v)) max = v;
  }
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    const int64_t count = std::min(kChunk, n - begin);
    for (int64_t i = 0; i < count; ++i) chunk[i] = static_cast<float>(x[begin + i]) - max;
    sum += exp_sum_f32(chunk, 1.0f, 0.0f, chunk, static_cast<size_t>(count));
  }
  const float log_sum = T(std::log(static_cast<float>(T(sum))));
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(x[i]) - log_sum - max;
}

template <typename T>
std::unique_ptr<Kernel> make_log_softmax_half(const AxisSplit& split) {
  return make_kernel([split](const Buffers& b) {
    b.pool.for_ranges(split.outer, grain_for(4 * split.extent), [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o)
        log_softmax_half_row(b.input<T>(0) + o * split.extent, b.output<T>() + o * split.extent,
                             split.extent);
    });
    return ok_status();
  });
}

}  // namespace

KernelResult softmax(const KernelCall& call) {
  const AxisSplit split = split_at(call.in[0].shape, call.attrs.integer("dim"));
  const bool log = call.op == Op::log_softmax;
  if (split.extent == 0) return make_kernel([](const Buffers&) { return ok_status(); });
  if (call.in[0].dtype == DType::f64) {
    return make_kernel([split, log](const Buffers& b) {
      b.pool.for_ranges(split.outer * split.inner, grain_for(split.extent), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          const int64_t base = t / split.inner * split.extent * split.inner + t % split.inner;
          softmax_column(b.input<double>(0) + base, b.output<double>() + base, split, log);
        }
      });
      return ok_status();
    });
  }
  const bool last_axis = call.attrs.integer("dim") + 1 >= static_cast<int64_t>(call.in[0].rank());
  if (log && last_axis && call.in[0].dtype == DType::f16) return make_log_softmax_half<Half>(split);
  if (log && last_axis && call.in[0].dtype == DType::bf16) return make_log_softmax_half<BFloat16>(split);
  if (call.in[0].dtype != DType::f32) return unsupported(call.op, " of ", call.in[0].dtype);
  if (split.inner == 1) {
    const auto run = [split, log](const Buffers& b) {
      b.pool.for_ranges(split.outer, grain_for(4 * split.extent), [&](int64_t begin, int64_t end) {
        if (split.extent < kShortRow) {
          for (int64_t o = begin; o < end; o += kShortRows)
            softmax_short_rows(b.input<float>(0) + o * split.extent, b.output<float>() + o * split.extent,
                               std::min(kShortRows, end - o), split.extent, log);
          return;
        }
        for (int64_t o = begin; o < end; ++o) {
          const int64_t base = o * split.extent;
          softmax_row(b.input<float>(0) + base, b.output<float>() + base, split.extent, log);
        }
      });
      return ok_status();
    };
    return make_kernel(run, {.in_place = !log});
  }
  const int64_t strips = (split.inner + kStrip - 1) / kStrip;
  const auto run = [split, log, strips](const Buffers& b) {
    const int64_t grain = grain_for(4 * split.extent * std::min(split.inner, kStrip));
    b.pool.for_ranges(split.outer * strips, grain, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t column = t % strips * kStrip;
        const int64_t base = t / strips * split.extent * split.inner + column;
        softmax_columns(b.input<float>(0) + base, b.output<float>() + base, split,
                        std::min(kStrip, split.inner - column), log);
      }
    });
    return ok_status();
  };
  return make_kernel(run, {.in_place = !log});
}

}  // namespace sixfold::cpu
