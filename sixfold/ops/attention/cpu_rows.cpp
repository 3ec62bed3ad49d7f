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

HWY_EXPORT(MixRow);
HWY_EXPORT(MaskRow);
HWY_EXPORT(AddRow);

void mix_row(const float* p, const float* v, int64_t count, int64_t width, bool add, float* out) {
  HWY_DYNAMIC_DISPATCH(MixRow)(p, v, count, width, add, out);
}
void mask_row(float* scores, const bool* allowed, int64_t count) {
  HWY_DYNAMIC_DISPATCH(MaskRow)(scores, allowed, count);
}
void add_row(float* scores, const float* bias, int64_t count) {
  HWY_DYNAMIC_DISPATCH(AddRow)(scores, bias, count);
}

}  // namespace sixfold::cpu::attention
#endif
