// To fixed point, from reals, sums and other encodings. Written with vectors: the compiler makes none of
// loops over floats that round so.
#include "sixfold/cpu/fixed_rows.h"
#include "sixfold/cpu/quant.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sixfold/cpu/quantize_rows.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sixfold::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The nearest half of a number that is not tiny: 10 bits of mantissa, ties to even. Beyond a half's range it
// stays large.
template <typename D>
inline hn::Vec<D> nearest_half(D d, hn::Vec<D> v) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<13>(bits), hn::Set(du, 1));
  const auto up = hn::Add(hn::Add(bits, hn::Set(du, 0xFFF)), odd);
  return hn::BitCast(d, hn::AndNot(hn::Set(du, 0x1FFF), up));
}

template <typename D>
inline hn::Vec<D> cut(D d, hn::Vec<D> v, hn::TFromD<D> min, hn::TFromD<D> max) {
  const auto low = hn::Set(d, min), high = hn::Set(d, max);
  v = hn::IfThenElse(hn::Gt(v, low), v, low);  // NaN: the smallest
  return hn::Min(v, high);
}

template <typename D, typename T>
inline void quantize_bytes(D d, const float* x, const RealCode& code, T* y, int64_t n, int64_t* at) {
  const auto steps = hn::Set(d, 1 / static_cast<float>(code.scale));
  const auto zero = hn::Set(d, -static_cast<float>(code.offset));
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const hn::Rebind<int32_t, D> di;
  const hn::Rebind<T, D> dt;
  int64_t i = *at;
  for (; i + lanes <= n; i += lanes) {
    const auto v = nearest_half(d, hn::Mul(hn::LoadU(d, x + i), steps));
    // Ties away from zero. The sum is exact, as a half has 11 bits, or so large that the result is cut.
    const auto near = hn::Floor(hn::Add(hn::Abs(v), hn::Set(d, 0.5f)));
    const auto q = hn::Add(hn::CopySign(near, v), zero);
    const auto stored = cut(d, q, static_cast<float>(code.min), static_cast<float>(code.max));
    hn::StoreU(hn::DemoteTo(dt, hn::ConvertTo(di, stored)), dt, y + i);
  }
  *at = i;
}

template <typename D, typename T>
inline void quantize_words(D d, const float* x, const RealCode& code, T* y, int64_t n, int64_t* at) {
  const auto scale = hn::Set(d, code.scale), zero = hn::Set(d, -static_cast<double>(code.offset));
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const hn::Rebind<float, D> df;
  const hn::Rebind<int32_t, D> di;
  const hn::Rebind<T, D> dt;
  int64_t i = *at;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::Div(hn::PromoteTo(d, hn::LoadU(df, x + i)), scale);
    const auto size = hn::Abs(v), whole = hn::Floor(size);
    const auto more = hn::Add(whole, hn::Set(d, 1.0));
    const auto near = hn::IfThenElse(hn::Ge(hn::Sub(size, whole), hn::Set(d, 0.5)), more, whole);
    const auto q = hn::Add(hn::CopySign(near, v), zero);
    const auto stored = cut(d, q, static_cast<double>(code.min), static_cast<double>(code.max));
    hn::StoreU(hn::DemoteTo(dt, hn::DemoteTo(di, stored)), dt, y + i);
  }
  *at = i;
}

template <typename T>
void quantize_as(const float* x, const RealCode& code, T* y, int64_t n) {
  int64_t i = 0;
  if constexpr (sizeof(T) == 1) {
    quantize_bytes(hn::ScalableTag<float>(), x, code, y, n, &i);
    quantize_bytes(hn::CappedTag<float, 1>(), x, code, y, n, &i);
  } else {
    quantize_words(hn::ScalableTag<double>(), x, code, y, n, &i);
    quantize_words(hn::CappedTag<double, 1>(), x, code, y, n, &i);
  }
}

void quantize_row_here(const float* x, Stored stored, const RealCode& code, void* y, int64_t n) {
  with_stored(stored, [&](auto t) { quantize_as(x, code, static_cast<decltype(t)*>(y), n); });
}

template <typename D>
inline void hard_swish_vectors(D d, const int32_t* sums, const double* scale, const RealCode& code,
                               uint16_t* y, int64_t n, int64_t* at) {
  const hn::Rebind<int32_t, D> di;
  const hn::Rebind<uint16_t, D> dt;
  const auto steps = hn::Set(d, 1 / (6 * code.scale)), zero = hn::Set(d, -static_cast<double>(code.offset));
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = *at;
  for (; i + lanes <= n; i += lanes) {
    const auto x = hn::Mul(hn::PromoteTo(d, hn::LoadU(di, sums + i)), hn::LoadU(d, scale + i));
    const auto gate = cut(d, hn::Add(x, hn::Set(d, 3.0)), 0, 6);
    const auto q = hn::Add(hn::Floor(hn::Mul(hn::Mul(x, gate), steps)), zero);
    const auto stored = cut(d, q, static_cast<double>(code.min), static_cast<double>(code.max));
    hn::StoreU(hn::DemoteTo(dt, hn::DemoteTo(di, stored)), dt, y + i);
  }
  *at = i;
}
void hard_swish_here(const int32_t* sums, const double* scale, const RealCode& code, uint16_t* y, int64_t n) {
  int64_t i = 0;
  hard_swish_vectors(hn::ScalableTag<double>(), sums, scale, code, y, n, &i);
  hard_swish_vectors(hn::CappedTag<double, 1>(), sums, scale, code, y, n, &i);
}

template <typename D, typename T, typename U>
inline void recode_vectors(D d, const FixedRecode& r, const T* x, U* y, int64_t n, int64_t place,
                           int64_t* at) {
  const hn::Rebind<int32_t, D> di;
  const hn::Rebind<T, D> dt;
  const hn::Rebind<U, D> du;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto offset = hn::Set(d, r.offset), scale = hn::Set(d, r.scale), down = hn::Set(d, r.down);
  const auto more = hn::Set(d, r.more), last = hn::Set(d, r.last), zero = hn::Set(d, r.zero);
  const auto first = hn::Set(d, r.add[(place + *at) % 2]), second = hn::Set(d, r.add[(place + *at + 1) % 2]);
  int64_t i = *at;
  for (; i + lanes <= n; i += lanes) {
    // One lane at a time: its place decides. Several: they begin where the first did, their number is even.
    const auto add = lanes == 1 ? hn::Set(d, r.add[(place + i) % 2]) : hn::OddEven(second, first);
    const auto q = hn::PromoteTo(d, hn::PromoteTo(di, hn::LoadU(dt, x + i)));
    const auto parts = hn::Floor(hn::Mul(hn::Add(hn::Mul(hn::Add(q, offset), scale), add), down));
    const auto steps = hn::Add(hn::Floor(hn::Mul(hn::Add(parts, more), last)), zero);
    const auto stored = cut(d, steps, r.min, r.max);
    hn::StoreU(hn::DemoteTo(du, hn::DemoteTo(di, stored)), du, y + i);
  }
  *at = i;
}

template <typename T, typename U>
void recode_as(const FixedRecode& r, const T* x, U* y, int64_t n, int64_t place) {
  int64_t i = 0;
  recode_vectors(hn::ScalableTag<double>(), r, x, y, n, place, &i);
  recode_vectors(hn::CappedTag<double, 1>(), r, x, y, n, place, &i);
}

void recode_here(const FixedRecode& r, const void* x, void* y, int64_t n, int64_t place) {
  with_stored(r.from, [&](auto t) {
    with_stored(r.to, [&](auto u) {
      recode_as(r, static_cast<const decltype(t)*>(x), static_cast<decltype(u)*>(y), n, place);
    });
  });
}

}  // namespace sixfold::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sixfold::cpu {

HWY_EXPORT(quantize_row_here);
HWY_EXPORT(hard_swish_here);
HWY_EXPORT(recode_here);

void quantize_row(const float* x, Stored stored, const RealCode& code, void* y, int64_t n) {
  quant_kernels();  // first: the environment may keep all SIMD code to fewer instructions
  HWY_DYNAMIC_DISPATCH(quantize_row_here)(x, stored, code, y, n);
}

void hard_swish_sums(const int32_t* sums, const double* scale, const RealCode& code, uint16_t* y, int64_t n) {
  quant_kernels();
  HWY_DYNAMIC_DISPATCH(hard_swish_here)(sums, scale, code, y, n);
}

void recode_row(const FixedRecode& recode, const void* x, void* y, int64_t n, int64_t place) {
  quant_kernels();
  HWY_DYNAMIC_DISPATCH(recode_here)(recode, x, y, n, place);
}

}  // namespace sixfold::cpu
#endif
