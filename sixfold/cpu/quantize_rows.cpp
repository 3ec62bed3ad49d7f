// From reals to fixed point and back, and from sums and other encodings. Written with vectors: the compiler
// makes none of loops over floats that round so.
#include <bit>
#include <cmath>

#include "sixfold/cpu/fixed_rows.h"
#include "sixfold/cpu/qfloat.h"
#include "sixfold/cpu/quant.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sixfold/cpu/quantize_rows.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "sixfold/cpu/qfloat-inl.h"

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

// x * factor, so that its nearest half is that of the exact product: a float that is a tie of halves, and is
// not the product, is moved towards it by one unit.
template <typename D>
inline hn::Vec<D> product_for_half(D d, const float* x, float factor) {
  const hn::RebindToUnsigned<D> du;
  const auto v = hn::Mul(hn::LoadU(d, x), hn::Set(d, factor));
  const auto rest = hn::And(hn::BitCast(du, v), hn::Set(du, 0x1FFF));
  const auto ties = hn::Eq(rest, hn::Set(du, 0x1000));
  if (HWY_LIKELY(hn::AllFalse(du, ties))) return v;
  HWY_ALIGN float near[hn::MaxLanes(d)];
  hn::Store(v, d, near);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    const double exact = static_cast<double>(x[i]) * static_cast<double>(factor);
    const auto tie = static_cast<double>(near[i]);
    if (tie != exact) near[i] = std::nextafter(near[i], tie < exact ? INFINITY : -INFINITY);
  }
  return hn::IfThenElse(hn::RebindMask(d, ties), hn::Load(d, near), v);
}

template <typename D>
inline hn::Vec<D> cut(D d, hn::Vec<D> v, hn::TFromD<D> min, hn::TFromD<D> max) {
  const auto low = hn::Set(d, min), high = hn::Set(d, max);
  v = hn::IfThenElse(hn::Gt(v, low), v, low);  // NaN: the smallest
  return hn::Min(v, high);
}

template <typename D, typename T>
inline void quantize_bytes(D d, const float* x, const RealCode& code, T* y, int64_t n, int64_t* at) {
  const float steps = 1 / static_cast<float>(code.scale);
  const auto zero = hn::Set(d, -static_cast<float>(code.offset));
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const hn::Rebind<int32_t, D> di;
  const hn::Rebind<T, D> dt;
  int64_t i = *at;
  for (; i + lanes <= n; i += lanes) {
    const auto v = nearest_half(d, product_for_half(d, x + i, steps));
    // Ties away from zero. The sum is exact, as a half has 11 bits, or so large that the result is cut.
    const auto near = hn::Floor(hn::Add(hn::Abs(v), hn::Set(d, 0.5f)));
    const auto q = hn::Add(hn::CopySign(near, v), zero);
    const auto stored = cut(d, q, static_cast<float>(code.min), static_cast<float>(code.max));
    hn::StoreU(hn::DemoteTo(dt, hn::ConvertTo(di, stored)), dt, y + i);
  }
  *at = i;
}

template <typename D, typename T>
inline void quantize_words(D d, const float* x, RealType type, const RealCode& code, T* y, int64_t n,
                           int64_t* at) {
  const float inverse = 1 / static_cast<float>(code.scale);
  const QFloat factor = QFloat::of(inverse);
  const bool halves = type == RealType::f16;
  const auto steps =
      hn::Set(d, halves ? static_cast<double>(factor.significand) : static_cast<double>(inverse));
  const auto unit = hn::Set(d, std::ldexp(1.0, factor.exponent - 23));
  const auto zero = hn::Set(d, -static_cast<double>(code.offset));
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const hn::Rebind<float, D> df;
  const hn::Rebind<int32_t, D> di;
  const hn::Rebind<T, D> dt;
  int64_t i = *at;
  for (; i + lanes <= n; i += lanes) {
    auto v = hn::PromoteTo(d, hn::LoadU(df, x + i));
    if (halves) {
      // A half becomes such a float by a product with 1: one more of its own units.
      const Powers<D> own(
          d, hn::IfThenElse(hn::Eq(v, hn::Zero(d)), v, hn::Max(hn::Abs(v), hn::Set(d, 0x1p-14))));
      const auto size =
          hn::Add(hn::Mul(hn::Mul(hn::Abs(v), own.inverse), hn::Set(d, 8388608.0)), hn::Set(d, 1.0));
      const auto units = hn::Mul(hn::Mul(hn::CopySign(size, v), steps), hn::Set(d, 1.0 / 8388608.0));
      v = hn::Mul(rounded_units(d, units), hn::Mul(own.power, unit));
    } else {
      v = hn::Mul(v, steps);  // exact
    }
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
void quantize_as(const float* x, RealType type, const RealCode& code, T* y, int64_t n) {
  int64_t i = 0;
  if constexpr (sizeof(T) == 1) {
    quantize_bytes(hn::ScalableTag<float>(), x, code, y, n, &i);
    quantize_bytes(hn::CappedTag<float, 1>(), x, code, y, n, &i);
  } else {
    quantize_words(hn::ScalableTag<double>(), x, type, code, y, n, &i);
    quantize_words(hn::CappedTag<double, 1>(), x, type, code, y, n, &i);
  }
}

void quantize_row_here(const float* x, RealType type, Stored stored, const RealCode& code, void* y,
                       int64_t n) {
  with_stored(stored, [&](auto t) { quantize_as(x, type, code, static_cast<decltype(t)*>(y), n); });
}

// The nearest float of an exact product, ties away from zero: the 29 bits that a double has more are rounded
// by hand.
template <typename T>
void dequantize_bytes(const T* __restrict x, double scale, int32_t offset, float* __restrict y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<uint64_t>(static_cast<double>(x[i] + offset) * scale);
    y[i] = static_cast<float>(std::bit_cast<double>((bits + 0x10000000u) & ~uint64_t{0x1FFFFFFF}));
  }
}

// A product of two QFloats. A whole number of 17 bits is one more of its own units there, whatever its sign.
template <typename D, typename T>
inline void dequantize_words(D d, const T* x, QFloat scale, int32_t offset, float* y, int64_t n,
                             int64_t* at) {
  const hn::Rebind<float, D> df;
  const hn::Rebind<int32_t, D> di;
  const hn::Rebind<T, D> dt;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto significand = hn::Set(d, static_cast<double>(scale.significand));
  const auto unit = hn::Set(d, std::ldexp(1.0, scale.exponent - 23));
  int64_t i = *at;
  for (; i + lanes <= n; i += lanes) {
    const auto q = hn::PromoteTo(d, hn::Add(hn::PromoteTo(di, hn::LoadU(dt, x + i)), hn::Set(di, offset)));
    const Powers<D> own(d, q);
    const auto size = hn::Add(hn::Mul(hn::Mul(q, own.inverse), hn::Set(d, 8388608.0)), hn::Set(d, 1.0));
    const auto units = hn::Mul(hn::Mul(size, significand), hn::Set(d, 1.0 / 8388608.0));
    const auto r = hn::Mul(rounded_units(d, units), hn::Mul(own.power, unit));
    hn::StoreU(hn::DemoteTo(df, r), df, y + i);
  }
  *at = i;
}

void dequantize_row_here(Stored stored, const RealCode& code, const void* x, float* y, int64_t n) {
  const QFloat scale = QFloat::of(static_cast<float>(code.scale));
  with_stored(stored, [&](auto t) {
    const auto* from = static_cast<const decltype(t)*>(x);
    if constexpr (sizeof(t) == 1) return dequantize_bytes(from, code.scale, code.offset, y, n);
    int64_t i = 0;
    dequantize_words(hn::ScalableTag<double>(), from, scale, code.offset, y, n, &i);
    dequantize_words(hn::CappedTag<double, 1>(), from, scale, code.offset, y, n, &i);
  });
}

template <typename D>
inline void hard_swish_vectors(D d, const WideSwishRow& row, const int32_t* sums, uint16_t* y, int64_t n,
                               int64_t* at) {
  const hn::Rebind<int32_t, D> di;
  const hn::Rebind<uint16_t, D> dt;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = *at;
  for (; i + lanes <= n; i += lanes) {
    const auto own = [d, i](const double* of) { return hn::LoadU(d, of + i); };
    const auto half = hn::Floor(hn::Mul(hn::PromoteTo(d, hn::LoadU(di, sums + i)), own(row.up)));
    const auto t = cut(d, hn::Add(hn::Add(half, half), hn::Set(d, 1.0)), -0x1p30, 0x1p30);
    const auto near = hn::Max(hn::Min(t, own(row.far)), hn::Neg(own(row.far)));
    const auto gate = hn::Add(hn::Floor(hn::Mul(near, own(row.slope))), own(row.middle));
    const auto g = hn::IfThenElse(hn::Ge(gate, own(row.open)), own(row.whole), hn::Max(gate, hn::Zero(d)));
    const auto q = hn::Add(hn::Floor(hn::Mul(hn::Mul(t, g), hn::Set(d, 0x1p-28))), hn::Set(d, row.zero));
    hn::StoreU(hn::DemoteTo(dt, hn::DemoteTo(di, cut(d, q, 0, 65535))), dt, y + i);
  }
  *at = i;
}
void hard_swish_here(const WideSwishRow& row, const int32_t* sums, uint16_t* y, int64_t n) {
  int64_t i = 0;
  hard_swish_vectors(hn::ScalableTag<double>(), row, sums, y, n, &i);
  hard_swish_vectors(hn::CappedTag<double, 1>(), row, sums, y, n, &i);
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
HWY_EXPORT(dequantize_row_here);
HWY_EXPORT(hard_swish_here);
HWY_EXPORT(recode_here);

void quantize_row(const float* x, RealType type, Stored stored, const RealCode& code, void* y, int64_t n) {
  quant_kernels();  // first: the environment may keep all SIMD code to fewer instructions
  HWY_DYNAMIC_DISPATCH(quantize_row_here)(x, type, stored, code, y, n);
}

void dequantize_row(Stored stored, const RealCode& code, const void* x, float* y, int64_t n) {
  quant_kernels();
  HWY_DYNAMIC_DISPATCH(dequantize_row_here)(stored, code, x, y, n);
}

void hard_swish_sums(const WideSwishRow& row, const int32_t* sums, uint16_t* y, int64_t n) {
  quant_kernels();
  HWY_DYNAMIC_DISPATCH(hard_swish_here)(row, sums, y, n);
}

void recode_row(const FixedRecode& recode, const void* x, void* y, int64_t n, int64_t place) {
  quant_kernels();
  HWY_DYNAMIC_DISPATCH(recode_here)(recode, x, y, n, place);
}

}  // namespace sixfold::cpu
#endif
