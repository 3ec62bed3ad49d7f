#include "sixfold/cpu/bf16_rows.h"

#include "sixfold/base/half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sixfold/cpu/bf16_rows.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sixfold::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void round_to_bf16(const float* from, uint16_t* to, size_t n) {
  const hn::ScalableTag<uint32_t> d;
  const hn::Rebind<uint16_t, decltype(d)> d16;
  const hn::Rebind<float, decltype(d)> df;
  const size_t lanes = hn::Lanes(d);
  const auto one = hn::Set(d, 1), half = hn::Set(d, 0x7fff);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto x = hn::LoadU(df, from + i);
    const auto bits = hn::BitCast(d, x);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), one);
    auto y = hn::ShiftRight<16>(hn::Add(bits, hn::Add(half, odd)));
    y = hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(x)), hn::Or(hn::ShiftRight<16>(bits), hn::Set(d, 0x40)),
                       y);
    hn::StoreU(hn::TruncateTo(d16, y), d16, to + i);
  }
  for (; i < n; ++i) to[i] = BFloat16(from[i]).bits;
}

}  // namespace sixfold::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sixfold::cpu {

HWY_EXPORT(round_to_bf16);

void to_bf16(const float* from, uint16_t* to, size_t n) { HWY_DYNAMIC_DISPATCH(round_to_bf16)(from, to, n); }

}  // namespace sixfold::cpu
#endif
