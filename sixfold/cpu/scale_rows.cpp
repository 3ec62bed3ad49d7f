#include "sixfold/cpu/scale_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sixfold/cpu/scale_rows.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sixfold::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void scale_row(float* x, const float* scale, const float* shift, const float* residual, size_t n) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    auto y = hn::MulAdd(hn::LoadU(d, x + i), hn::LoadU(d, scale + i), hn::LoadU(d, shift + i));
    if (residual) y = hn::Add(y, hn::LoadU(d, residual + i));
    hn::StoreU(y, d, x + i);
  }
  const hn::CappedTag<float, 1> one;
  for (; i < n; ++i) {  // the same fused operation, so that a value's bits do not depend on its place
    auto y = hn::MulAdd(hn::LoadU(one, x + i), hn::LoadU(one, scale + i), hn::LoadU(one, shift + i));
    if (residual) y = hn::Add(y, hn::LoadU(one, residual + i));
    hn::StoreU(y, one, x + i);
  }
}

}  // namespace sixfold::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sixfold::cpu {

HWY_EXPORT(scale_row);

void scale_row_f32(float* x, const float* scale, const float* shift, const float* residual, size_t n) {
  HWY_DYNAMIC_DISPATCH(scale_row)(x, scale, shift, residual, n);
}

}  // namespace sixfold::cpu
#endif
