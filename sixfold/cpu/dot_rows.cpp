#include "sixfold/cpu/dot_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sixfold/cpu/dot_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sixfold::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Four rows at a time share the loads of q.
void DotRows(const float* HWY_RESTRICT q, const float* HWY_RESTRICT k, int64_t count, int64_t width,
             float scale, float* HWY_RESTRICT out) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t s = 0;
  for (; s + 4 <= count; s += 4) {
    const float* rows = k + s * width;
    V a0 = hn::Zero(d), a1 = a0, a2 = a0, a3 = a0;
    int64_t e = 0;
    for (; e + lanes <= width; e += lanes) {
      const V x = hn::LoadU(d, q + e);
      a0 = hn::MulAdd(x, hn::LoadU(d, rows + e), a0);
      a1 = hn::MulAdd(x, hn::LoadU(d, rows + width + e), a1);
      a2 = hn::MulAdd(x, hn::LoadU(d, rows + 2 * width + e), a2);
      a3 = hn::MulAdd(x, hn::LoadU(d, rows + 3 * width + e), a3);
    }
    float sums[4] = {hn::GetLane(hn::SumOfLanes(d, a0)), hn::GetLane(hn::SumOfLanes(d, a1)),
                     hn::GetLane(hn::SumOfLanes(d, a2)), hn::GetLane(hn::SumOfLanes(d, a3))};
    for (; e < width; ++e)
      for (int64_t i = 0; i < 4; ++i) sums[i] += q[e] * rows[i * width + e];
    for (int64_t i = 0; i < 4; ++i) out[s + i] = sums[i] * scale;
  }
  for (; s < count; ++s) {
    const float* row = k + s * width;
    V a = hn::Zero(d);
    int64_t e = 0;
    for (; e + lanes <= width; e += lanes) a = hn::MulAdd(hn::LoadU(d, q + e), hn::LoadU(d, row + e), a);
    float sum = hn::GetLane(hn::SumOfLanes(d, a));
    for (; e < width; ++e) sum += q[e] * row[e];
    out[s] = sum * scale;
  }
}

}  // namespace sixfold::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sixfold::cpu {

HWY_EXPORT(DotRows);

void dot_rows(const float* q, const float* k, int64_t count, int64_t width, float scale, float* out) {
  HWY_DYNAMIC_DISPATCH(DotRows)(q, k, count, width, scale, out);
}

}  // namespace sixfold::cpu
#endif
