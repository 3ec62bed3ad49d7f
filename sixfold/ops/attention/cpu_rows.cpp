#include <limits>

#include "sixfold/ops/attention/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sixfold/ops/attention/cpu_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sixfold::cpu::attention::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Four keys at a time share the loads of q.
void ScoreRow(const float* HWY_RESTRICT q, const float* HWY_RESTRICT k, int64_t count, int64_t width, float scale,
              float* HWY_RESTRICT scores) {
  const D d;
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
    for (int64_t i = 0; i < 4; ++i) scores[s + i] = sums[i] * scale;
  }
  for (; s < count; ++s) {
    const float* row = k + s * width;
    V a = hn::Zero(d);
    int64_t e = 0;
    for (; e + lanes <= width; e += lanes) a = hn::MulAdd(hn::LoadU(d, q + e), hn::LoadU(d, row + e), a);
    float sum = hn::GetLane(hn::SumOfLanes(d, a));
    for (; e < width; ++e) sum += q[e] * row[e];
    scores[s] = sum * scale;
  }
}

// Four vectors of the output stay in registers while the keys go by.
void MixRow(const float* HWY_RESTRICT p, const float* HWY_RESTRICT v, int64_t count, int64_t width, bool add,
            float* HWY_RESTRICT out) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t e = 0;
  for (; e + 4 * lanes <= width; e += 4 * lanes) {
    V a[4];
    for (int i = 0; i < 4; ++i) a[i] = add ? hn::LoadU(d, out + e + i * lanes) : hn::Zero(d);
    for (int64_t s = 0; s < count; ++s) {
      const V x = hn::Set(d, p[s]);
      const float* row = v + s * width + e;
      a[0] = hn::MulAdd(x, hn::LoadU(d, row), a[0]);
      a[1] = hn::MulAdd(x, hn::LoadU(d, row + lanes), a[1]);
      a[2] = hn::MulAdd(x, hn::LoadU(d, row + 2 * lanes), a[2]);
      a[3] = hn::MulAdd(x, hn::LoadU(d, row + 3 * lanes), a[3]);
    }
    for (int i = 0; i < 4; ++i) hn::StoreU(a[i], d, out + e + i * lanes);
  }
  for (; e + lanes <= width; e += lanes) {
    V a = add ? hn::LoadU(d, out + e) : hn::Zero(d);
    for (int64_t s = 0; s < count; ++s) a = hn::MulAdd(hn::Set(d, p[s]), hn::LoadU(d, v + s * width + e), a);
    hn::StoreU(a, d, out + e);
  }
  for (; e < width; ++e) {
    float a = add ? out[e] : 0.0f;
    for (int64_t s = 0; s < count; ++s) a += p[s] * v[s * width + e];
    out[e] = a;
  }
}

void MaskRow(float* HWY_RESTRICT scores, const bool* HWY_RESTRICT allowed, int64_t count) {
  const D d;
  const hn::Rebind<uint8_t, D> bytes;
  const hn::RebindToSigned<D> ints;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto flags = hn::PromoteTo(ints, hn::LoadU(bytes, reinterpret_cast<const uint8_t*>(allowed) + i));
    const auto off = hn::RebindMask(d, hn::Eq(flags, hn::Zero(ints)));
    hn::StoreU(hn::IfThenElse(off, lowest, hn::LoadU(d, scores + i)), d, scores + i);
  }
  for (; i < count; ++i)
    if (!allowed[i]) scores[i] = -std::numeric_limits<float>::infinity();
}

void AddRow(float* HWY_RESTRICT scores, const float* HWY_RESTRICT bias, int64_t count) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::Add(hn::LoadU(d, scores + i), hn::LoadU(d, bias + i)), d, scores + i);
  for (; i < count; ++i) scores[i] += bias[i];
}

}  // namespace sixfold::cpu::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sixfold::cpu::attention {

HWY_EXPORT(ScoreRow);
HWY_EXPORT(MixRow);
HWY_EXPORT(MaskRow);
HWY_EXPORT(AddRow);

void score_row(const float* q, const float* k, int64_t count, int64_t width, float scale, float* scores) {
  HWY_DYNAMIC_DISPATCH(ScoreRow)(q, k, count, width, scale, scores);
}
void mix_row(const float* p, const float* v, int64_t count, int64_t width, bool add, float* out) {
  HWY_DYNAMIC_DISPATCH(MixRow)(p, v, count, width, add, out);
}
void mask_row(float* scores, const bool* allowed, int64_t count) {
  HWY_DYNAMIC_DISPATCH(MaskRow)(scores, allowed, count);
}
void add_row(float* scores, const float* bias, int64_t count) { HWY_DYNAMIC_DISPATCH(AddRow)(scores, bias, count); }

}  // namespace sixfold::cpu::attention
#endif
