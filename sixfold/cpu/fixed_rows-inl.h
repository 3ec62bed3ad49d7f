// What loops over rows of fixed point share. Included once for each target.
#if defined(SIXFOLD_CPU_FIXED_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SIXFOLD_CPU_FIXED_ROWS_INL_H_
#undef SIXFOLD_CPU_FIXED_ROWS_INL_H_
#else
#define SIXFOLD_CPU_FIXED_ROWS_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sixfold::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Elements as doubles, and back. Where doubles are computed with, vectors are written out: the compiler makes
// none of such loops.
template <typename T, typename D>
inline hn::Vec<D> load_reals(D d, const T* x, int32_t offset) {
  const hn::Rebind<int32_t, D> di;
  const hn::Rebind<T, D> dt;
  return hn::PromoteTo(d, hn::Add(hn::PromoteTo(di, hn::LoadU(dt, x)), hn::Set(di, offset)));
}
template <typename T, typename D>
inline void store_reals(D d, hn::Vec<D> q, double min, double max, T* y) {
  const hn::Rebind<int32_t, D> di;
  const hn::Rebind<T, D> dt;
  q = hn::Min(hn::IfThenElse(hn::Gt(q, hn::Set(d, min)), q, hn::Set(d, min)), hn::Set(d, max));
  hn::StoreU(hn::DemoteTo(dt, hn::DemoteTo(di, q)), dt, y);
}
using Reals = hn::ScalableTag<double>;
using OneReal = hn::CappedTag<double, 1>;  // for the rest of a row

}  // namespace sixfold::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
