// Floats to the nearest half, as a float: the two ways of emulator/numbers.h in vectors. Included once for
// each target.
#if defined(SIXFOLD_CPU_HALF_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SIXFOLD_CPU_HALF_INL_H_
#undef SIXFOLD_CPU_HALF_INL_H_
#else
#define SIXFOLD_CPU_HALF_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sixfold::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// to_ieee_half: ties to the even one, 65536 in the place of infinity and NaN.
template <typename D>
inline hn::Vec<D> to_ieee_halves(D d, hn::Vec<D> x) {
  const hn::RebindToSigned<D> di;
  const auto bits = hn::BitCast(di, x);
  const auto size = hn::And(bits, hn::Set(di, 0x7fffffff));
  const auto odd = hn::And(hn::ShiftRight<13>(size), hn::Set(di, 1));
  auto y = hn::And(hn::Add(size, hn::Add(odd, hn::Set(di, 0xfff))), hn::Set(di, ~0x1fff));
  // Below 2^-14 halves are multiples of 2^-24, which are the steps of floats from 0.5 on.
  const auto half = hn::Set(d, 0.5f);
  const auto small = hn::BitCast(di, hn::Sub(hn::Add(hn::BitCast(d, size), half), half));
  y = hn::IfThenElse(hn::Lt(size, hn::Set(di, 0x38800000)), small, y);
  y = hn::IfThenElse(hn::Lt(size, hn::Set(di, 0x477ff000)), y, hn::Set(di, 0x47800000));
  return hn::BitCast(d, hn::Or(y, hn::AndNot(hn::Set(di, 0x7fffffff), bits)));
}

// to_half: ties away from zero, 131008 at the most, also for what is no number.
template <typename D>
inline hn::Vec<D> to_device_halves(D d, hn::Vec<D> x) {
  const hn::RebindToSigned<D> di;
  const auto bits = hn::BitCast(di, x);
  const auto size = hn::And(bits, hn::Set(di, 0x7fffffff));
  const auto most = hn::Set(di, 0x38000000 + (0x7fff << 13));
  auto y = hn::And(hn::Add(hn::Min(size, most), hn::Set(di, 0x1000)), hn::Set(di, ~0x1fff));
  y = hn::Min(y, most);
  // Parts of 2^-24 below 2^-14.
  const auto parts =
      hn::ConvertTo(di, hn::Add(hn::Mul(hn::BitCast(d, size), hn::Set(d, 16777216.0f)), hn::Set(d, 0.5f)));
  const auto small = hn::BitCast(di, hn::Mul(hn::ConvertTo(d, parts), hn::Set(d, 0x1p-24f)));
  y = hn::IfThenElse(hn::Lt(size, hn::Set(di, 0x38800000)), small, y);
  return hn::BitCast(d, hn::Or(y, hn::AndNot(hn::Set(di, 0x7fffffff), bits)));
}

}  // namespace sixfold::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
