#include "sixfold/cpu/sgemm.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sixfold/cpu/sgemm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sixfold/cpu/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sixfold::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using F32 = hn::ScalableTag<float>;
using V32 = hn::Vec<F32>;

// The first count lanes; no more memory is touched.
inline V32 load_some(F32 d, const float* from, size_t count) {
  if (count == hn::Lanes(d)) return hn::LoadU(d, from);
  HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)] = {};
  std::memcpy(lanes, from, count * sizeof(float));
  return hn::Load(d, lanes);
}
inline void store_some(V32 v, F32 d, float* to, size_t count) {
  if (count == hn::Lanes(d)) return hn::StoreU(v, d, to);
  HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(v, d, lanes);
  std::memcpy(to, lanes, count * sizeof(float));
}

inline void put(const Gemm& g, int64_t row, int64_t column, float sum) {
  float& c = g.c[row * g.c_step + column];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;
}

// b as [inner][columns]: Rows rows and two vectors of columns at once, so that each number read is used
// often.
template <int Rows>
void block(const Gemm& g, int64_t row, int64_t column) {
  const F32 d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V32 left[Rows], right[Rows];
  for (int r = 0; r < Rows; ++r) left[r] = right[r] = hn::Zero(d);
  for (int64_t k = 0; k < g.inner; ++k) {
    const float* b = g.b + k * g.b_step + column;
    const V32 b0 = hn::LoadU(d, b), b1 = hn::LoadU(d, b + lanes);
    for (int r = 0; r < Rows; ++r) {
      const V32 a = hn::Set(d, g.a[(row + r) * g.a_step + k]);
      left[r] = hn::MulAdd(a, b0, left[r]);
      right[r] = hn::MulAdd(a, b1, right[r]);
    }
  }
  HWY_ALIGN float sums[2 * HWY_MAX_BYTES / sizeof(float)];
  for (int r = 0; r < Rows; ++r) {
    hn::StoreU(left[r], d, sums);
    hn::StoreU(right[r], d, sums + lanes);
    for (int64_t i = 0; i < 2 * lanes; ++i) put(g, row + r, column + i, sums[i]);
  }
}

// As block, for the last columns: at most a vector of them.
template <int Rows>
void edge(const Gemm& g, int64_t row, int64_t column, size_t count) {
  const F32 d;
  V32 sum[Rows];
  for (int r = 0; r < Rows; ++r) sum[r] = hn::Zero(d);
  for (int64_t k = 0; k < g.inner; ++k) {
    const V32 b = load_some(d, g.b + k * g.b_step + column, count);
    for (int r = 0; r < Rows; ++r) sum[r] = hn::MulAdd(hn::Set(d, g.a[(row + r) * g.a_step + k]), b, sum[r]);
  }
  HWY_ALIGN float sums[HWY_MAX_BYTES / sizeof(float)] = {};
  for (int r = 0; r < Rows; ++r) {
    hn::StoreU(sum[r], d, sums);
    for (size_t i = 0; i < count; ++i) put(g, row + r, column + static_cast<int64_t>(i), sums[i]);
  }
}

void plain(const Gemm& g) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(F32()));
  int64_t column = 0;
  for (; column + 2 * lanes <= g.columns; column += 2 * lanes) {
    int64_t row = 0;
    for (; row + 4 <= g.rows; row += 4) block<4>(g, row, column);
    for (; row < g.rows; ++row) block<1>(g, row, column);
  }
  for (; column < g.columns; column += lanes) {
    const auto count = static_cast<size_t>(std::min(lanes, g.columns - column));
    int64_t row = 0;
    for (; row + 4 <= g.rows; row += 4) edge<4>(g, row, column, count);
    for (; row < g.rows; ++row) edge<1>(g, row, column, count);
  }
}

// b as [columns][inner]: dot products, of Columns rows of b with one of a.
template <int Columns>
void dots(const Gemm& g, int64_t row, int64_t column) {
  const F32 d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* a = g.a + row * g.a_step;
  const float* b = g.b + column * g.b_step;
  V32 sums[Columns];
  for (int c = 0; c < Columns; ++c) sums[c] = hn::Zero(d);
  int64_t k = 0;
  for (; k + lanes <= g.inner; k += lanes) {
    const V32 x = hn::LoadU(d, a + k);
    for (int c = 0; c < Columns; ++c) sums[c] = hn::MulAdd(x, hn::LoadU(d, b + c * g.b_step + k), sums[c]);
  }
  for (int c = 0; c < Columns; ++c) {
    float sum = hn::GetLane(hn::SumOfLanes(d, sums[c]));
    for (int64_t i = k; i < g.inner; ++i) sum += a[i] * b[c * g.b_step + i];
    put(g, row, column + c, sum);
  }
}

void transposed(const Gemm& g) {
  for (int64_t row = 0; row < g.rows; ++row) {
    int64_t column = 0;
    for (; column + 4 <= g.columns; column += 4) dots<4>(g, row, column);
    for (; column < g.columns; ++column) dots<1>(g, row, column);
  }
}

// As block and edge, with sums of 64 bits, whose result is rounded to a float.
using F64 = hn::ScalableTag<double>;
using V64 = hn::Vec<F64>;

template <int Rows, int Vectors>
void wide_block(const Gemm& g, int64_t row, int64_t column, size_t count) {
  const F64 d;
  const hn::Rebind<float, F64> half;
  const size_t lanes = hn::Lanes(d);
  V64 sums[Rows][Vectors];
  for (auto& of_row : sums)
    for (V64& sum : of_row) sum = hn::Zero(d);
  HWY_ALIGN float last[HWY_MAX_BYTES / sizeof(float)] = {};
  for (int64_t k = 0; k < g.inner; ++k) {
    const float* b = g.b + k * g.b_step + column;
    if (count < lanes * Vectors) {
      std::memcpy(last, b, count * sizeof(float));
      b = last;
    }
    V64 numbers[Vectors];
    for (int v = 0; v < Vectors; ++v)
      numbers[v] = hn::PromoteTo(d, hn::LoadU(half, b + static_cast<size_t>(v) * lanes));
    for (int r = 0; r < Rows; ++r) {
      const V64 a = hn::Set(d, static_cast<double>(g.a[(row + r) * g.a_step + k]));
      for (int v = 0; v < Vectors; ++v) sums[r][v] = hn::MulAdd(a, numbers[v], sums[r][v]);
    }
  }
  HWY_ALIGN float out[2 * HWY_MAX_BYTES / sizeof(float)] = {};
  for (int r = 0; r < Rows; ++r) {
    for (int v = 0; v < Vectors; ++v)
      hn::StoreU(hn::DemoteTo(half, sums[r][v]), half, out + static_cast<size_t>(v) * lanes);
    for (size_t i = 0; i < count; ++i) put(g, row + r, column + static_cast<int64_t>(i), out[i]);
  }
}

template <int Vectors>
void wide_columns(const Gemm& g, int64_t column, size_t count) {
  int64_t row = 0;
  for (; row + 4 <= g.rows; row += 4) wide_block<4, Vectors>(g, row, column, count);
  for (; row < g.rows; ++row) wide_block<1, Vectors>(g, row, column, count);
}

void wide(const Gemm& g) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(F64()));
  int64_t column = 0;
  for (; column + 2 * lanes <= g.columns; column += 2 * lanes)
    wide_columns<2>(g, column, static_cast<size_t>(2 * lanes));
  for (; column < g.columns; column += lanes)
    wide_columns<1>(g, column, static_cast<size_t>(std::min(lanes, g.columns - column)));
}

void products_of_channels(std::span<const float* const> x, const float* w, int64_t channels, float* y) {
  const F64 d;
  const hn::Rebind<float, F64> half;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + lanes <= channels; c += lanes) {
    V64 sum = hn::Zero(d);
    for (size_t t = 0; t < x.size(); ++t)
      if (x[t])
        sum = hn::MulAdd(hn::PromoteTo(d, hn::LoadU(half, x[t] + c)),
                         hn::PromoteTo(d, hn::LoadU(half, w + static_cast<int64_t>(t) * channels + c)), sum);
    hn::StoreU(hn::DemoteTo(half, sum), half, y + c);
  }
  for (; c < channels; ++c) {
    double sum = 0;
    for (size_t t = 0; t < x.size(); ++t)
      if (x[t])
        sum += static_cast<double>(x[t][c]) * static_cast<double>(w[static_cast<int64_t>(t) * channels + c]);
    y[c] = static_cast<float>(sum);
  }
}

void sums_to_halves(const float* x, const float* bias, int64_t count, float* y) {
  const F32 d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < count; i += lanes) {
    const auto n = static_cast<size_t>(std::min(lanes, count - i));
    V32 sum = load_some(d, x + i, n);
    if (bias) sum = hn::Add(sum, load_some(d, bias + i, n));
    store_some(to_ieee_halves(d, sum), d, y + i, n);
  }
}

void multiply(const Gemm& g) { g.transposed ? transposed(g) : plain(g); }

}  // namespace sixfold::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sixfold::cpu {

HWY_EXPORT(multiply);
void sgemm_plain(const Gemm& g) { HWY_DYNAMIC_DISPATCH(multiply)(g); }

HWY_EXPORT(wide);
void sgemm_simd(const Gemm& g) { HWY_DYNAMIC_DISPATCH(wide)(g); }

HWY_EXPORT(products_of_channels);
void channel_products(std::span<const float* const> x, const float* w, int64_t channels, float* y) {
  HWY_DYNAMIC_DISPATCH(products_of_channels)(x, w, channels, y);
}

HWY_EXPORT(sums_to_halves);
void add_to_halves(const float* x, const float* bias, int64_t count, float* y) {
  HWY_DYNAMIC_DISPATCH(sums_to_halves)(x, bias, count, y);
}

}  // namespace sixfold::cpu
#endif
