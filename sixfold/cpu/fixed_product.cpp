// Products of 16-bit numbers, scaled by 31 bits.
#include "sixfold/cpu/fixed_rows.h"
#include "sixfold/cpu/quant.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sixfold/cpu/fixed_product.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sixfold::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
// x * scale / 2^31, rounded, halves up. What is above 32 bits is not needed, so shifts need no sign.
template <typename D>
inline hn::Vec<D> scaled(D d, hn::Vec<D> x, hn::Vec<D> scale) {
  const hn::RepartitionToWide<D> wide;
  const hn::RebindToUnsigned<decltype(wide)> bits;
  const auto half = hn::Set(wide, int64_t{1} << 30);
  const auto odds = hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(bits, x)));
  const auto even = hn::Add(hn::MulEven(x, scale), half), odd = hn::Add(hn::MulEven(odds, scale), half);
  return hn::OddEven(hn::BitCast(d, hn::ShiftLeft<1>(odd)),
                     hn::BitCast(d, hn::ShiftRight<31>(hn::BitCast(bits, even))));
}

// Results from *at on, as many as vectors hold.
template <typename D, typename T>
void product_results(D d, const WideProduct& p, const T* a, int64_t step_a, const T* b, int64_t step_b, T* y,
                     int64_t n, int64_t* at) {
  const hn::Rebind<T, D> dt;
  const auto offset_a = hn::Set(d, p.offset_a), offset_b = hn::Set(d, p.offset_b);
  const auto only_a = hn::Set(d, *a + p.offset_a), only_b = hn::Set(d, *b + p.offset_b);
  const auto moved = hn::Set(d, p.moved), scale = hn::Set(d, p.scale), back = hn::Set(d, p.back);
  const auto low = hn::Set(d, p.low), high = hn::Set(d, p.high);
  const auto zero = hn::Set(d, p.zero), min = hn::Set(d, p.min), max = hn::Set(d, p.max);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = *at;
  for (; i + lanes <= n; i += lanes) {
    const auto u = step_a ? hn::Add(hn::PromoteTo(d, hn::LoadU(dt, a + i)), offset_a) : only_a;
    const auto v = step_b ? hn::Add(hn::PromoteTo(d, hn::LoadU(dt, b + i)), offset_b) : only_b;
    const auto t = hn::Clamp(scaled(d, hn::Add(hn::Mul(u, v), moved), scale), low, high);
    const auto q = hn::ShiftLeftSame(hn::ShiftRight<3>(hn::Add(t, back)), p.left);
    hn::StoreU(hn::DemoteTo(dt, hn::Clamp(hn::Add(q, zero), min, max)), dt, y + i);
  }
  *at = i;
}

#endif

// The rest of a row.
template <typename T>
T product_result(const WideProduct& p, T a, T b) {
  const auto x =
      static_cast<int32_t>(static_cast<uint32_t>(a + p.offset_a) * static_cast<uint32_t>(b + p.offset_b) +
                           static_cast<uint32_t>(p.moved));
  const int64_t t = (static_cast<int64_t>(x) * p.scale + (int64_t{1} << 30)) >> 31;
  const int64_t cut = HWY_MIN(HWY_MAX(t, int64_t{p.low}), int64_t{p.high});
  const int64_t q = ((cut + p.back) >> 3) * (int64_t{1} << p.left) + p.zero;
  return static_cast<T>(HWY_MIN(HWY_MAX(q, int64_t{p.min}), int64_t{p.max}));
}

template <typename T>
void product_row(const WideProduct& given, const void* first, int64_t step_a, const void* second,
                 int64_t step_b, void* to, int64_t n) {
  const WideProduct p = given;  // results cannot change it
  const auto *a = static_cast<const T*>(first), *b = static_cast<const T*>(second);
  auto* y = static_cast<T*>(to);
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  product_results(hn::ScalableTag<int32_t>(), p, a, step_a, b, step_b, y, n, &i);
#endif
  for (; i < n; ++i) y[i] = product_result(p, a[i * step_a], b[i * step_b]);
}

void wide_product_here(const WideProduct& p, const void* a, int64_t step_a, const void* b, int64_t step_b,
                       void* y, int64_t n) {
  if (p.stored == Stored::u16) return product_row<uint16_t>(p, a, step_a, b, step_b, y, n);
  product_row<int16_t>(p, a, step_a, b, step_b, y, n);
}

}  // namespace sixfold::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sixfold::cpu {

HWY_EXPORT(wide_product_here);

void wide_product(const WideProduct& p, const void* a, int64_t step_a, const void* b, int64_t step_b, void* y,
                  int64_t n) {
  quant_kernels();  // first: the environment may keep all SIMD code to fewer instructions
  HWY_DYNAMIC_DISPATCH(wide_product_here)(p, a, step_a, b, step_b, y, n);
}

}  // namespace sixfold::cpu
#endif
