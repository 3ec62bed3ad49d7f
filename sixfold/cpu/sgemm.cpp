#include "sixfold/cpu/sgemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sixfold/cpu/sgemm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sixfold::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using F32 = hn::ScalableTag<float>;
using V32 = hn::Vec<F32>;

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

void plain(const Gemm& g) {
  const auto width = static_cast<int64_t>(2 * hn::Lanes(F32()));
  int64_t column = 0;
  for (; column + width <= g.columns; column += width) {
    int64_t row = 0;
    for (; row + 4 <= g.rows; row += 4) block<4>(g, row, column);
    for (; row < g.rows; ++row) block<1>(g, row, column);
  }
  for (; column < g.columns; ++column) {
    for (int64_t row = 0; row < g.rows; ++row) {
      float sum = 0;
      for (int64_t k = 0; k < g.inner; ++k) sum += g.a[row * g.a_step + k] * g.b[k * g.b_step + column];
      put(g, row, column, sum);
    }
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

void multiply(const Gemm& g) { g.transposed ? transposed(g) : plain(g); }

}  // namespace sixfold::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sixfold::cpu {

HWY_EXPORT(multiply);
void sgemm_simd(const Gemm& g) { HWY_DYNAMIC_DISPATCH(multiply)(g); }

}  // namespace sixfold::cpu
#endif
