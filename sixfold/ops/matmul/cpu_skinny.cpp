// Products with few rows: each row of the weights is read once, where it lies, and meets all rows of x.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sixfold/ops/matmul/cpu_skinny.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sixfold/base/for_size.h"
#include "sixfold/ops/matmul/linear.h"

HWY_BEFORE_NAMESPACE();
namespace sixfold::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Dot products of Rows rows of x with Columns rows of w. A dot product adds the same numbers in the same
// order whatever block it is in.
template <size_t Rows, size_t Columns>
void dots(const float* x, const float* w, size_t inner, float* out, size_t out_step) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  using V = hn::Vec<decltype(d)>;
  // Two sums each, so that a single row of x does not wait for the latency of the additions.
  V even[Rows][Columns], odd[Rows][Columns];
  for (size_t r = 0; r < Rows; ++r)
    for (size_t c = 0; c < Columns; ++c) even[r][c] = odd[r][c] = hn::Zero(d);
  size_t k = 0;
  for (; k + 2 * lanes <= inner; k += 2 * lanes) {
    for (size_t c = 0; c < Columns; ++c) {
      const V w0 = hn::LoadU(d, w + c * inner + k), w1 = hn::LoadU(d, w + c * inner + k + lanes);
      for (size_t r = 0; r < Rows; ++r) {
        even[r][c] = hn::MulAdd(hn::LoadU(d, x + r * inner + k), w0, even[r][c]);
        odd[r][c] = hn::MulAdd(hn::LoadU(d, x + r * inner + k + lanes), w1, odd[r][c]);
      }
    }
  }
  for (size_t r = 0; r < Rows; ++r) {
    for (size_t c = 0; c < Columns; ++c) {
      float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(even[r][c], odd[r][c])));
      for (size_t i = k; i < inner; ++i) sum += x[r * inner + i] * w[c * inner + i];
      out[r * out_step + c] = sum;
    }
  }
}

template <size_t Rows>
void skinny_rows(const float* x, const float* w, const float* bias, float* y, size_t inner, size_t columns,
                 size_t begin, size_t end) {
  size_t c = begin;
  for (; c + 4 <= end; c += 4) dots<Rows, 4>(x, w + c * inner, inner, y + c, columns);
  for (; c < end; ++c) dots<Rows, 1>(x, w + c * inner, inner, y + c, columns);
  if (!bias) return;
  for (size_t r = 0; r < Rows; ++r)
    for (size_t i = begin; i < end; ++i) y[r * columns + i] += bias[i];
}

void skinny(const float* x, const float* w, const float* bias, float* y, size_t rows, size_t inner,
            size_t columns, size_t begin, size_t end) {
  if constexpr (kForSize) {
    for (size_t r = 0; r < rows; ++r)
      skinny_rows<1>(x + r * inner, w, bias, y + r * columns, inner, columns, begin, end);
    return;
  }
  switch (rows) {
    case 1:
      return skinny_rows<1>(x, w, bias, y, inner, columns, begin, end);
    case 2:
      return skinny_rows<2>(x, w, bias, y, inner, columns, begin, end);
    case 3:
      return skinny_rows<3>(x, w, bias, y, inner, columns, begin, end);
    default:
      return skinny_rows<4>(x, w, bias, y, inner, columns, begin, end);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sixfold::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sixfold::cpu {

HWY_EXPORT(skinny);

KernelResult make_skinny_linear(const SkinnyLinear& shape) {
  // About 128 KiB of weights a task; a multiple of the four rows that are read together.
  const int64_t grain = std::max<int64_t>(int64_t{32768} / std::max<int64_t>(shape.inner, 1) / 4 * 4, 4);
  return make_kernel([s = shape, grain](const Buffers& b) {
    const float* x = b.input<float>(0);
    const float* w = b.input<float>(1);
    const float* bias = s.bias ? b.input<float>(2) : nullptr;
    float* y = b.output<float>();
    b.pool.for_ranges(s.columns, grain, [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(skinny)
      (x, w, bias, y, static_cast<size_t>(s.rows), static_cast<size_t>(s.inner),
       static_cast<size_t>(s.columns), static_cast<size_t>(begin), static_cast<size_t>(end));
      if (s.activation) {
        for (int64_t r = 0; r < s.rows; ++r) {
          float* row = y + r * s.columns + begin;
          s.activation(row, row, static_cast<size_t>(end - begin));
        }
      }
    });
    return ok_status();
  });
}

}  // namespace sixfold::cpu
#endif
