// Float functions on Highway vectors, for SIMD files: include after hwy/highway.h, once per target.
//
// Errors against the exact value, in ulp, measured over all floats of the stated range (vector_math_test.cpp
// checks a sample): exp 1, log 1, expm1 2, log1p 2, tanh 2, sigmoid 3, erf 2. NaN gives NaN, infinities their
// limits. Polynomials are minimax fits (Remez, weighted for relative error).
#if defined(SIXFOLD_CPU_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SIXFOLD_CPU_VECTOR_MATH_INL_H_
#undef SIXFOLD_CPU_VECTOR_MATH_INL_H_
#else
#define SIXFOLD_CPU_VECTOR_MATH_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sixfold::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using V32 = hn::Vec<F32>;

HWY_INLINE V32 constant(float x) { return hn::Set(F32(), x); }

// c0 + c1 x + c2 x^2 + ...
HWY_INLINE V32 polynomial(V32, float c0) { return constant(c0); }
template <typename... More>
HWY_INLINE V32 polynomial(V32 x, float c0, More... more) {
  return hn::MulAdd(polynomial(x, more...), x, constant(c0));
}

// Comparisons with NaN are false, so NaN passes through both; Min and Max differ between targets there.
HWY_INLINE V32 at_most(V32 x, V32 limit) { return hn::IfThenElse(hn::Gt(x, limit), limit, x); }
HWY_INLINE V32 at_least(V32 x, V32 limit) { return hn::IfThenElse(hn::Lt(x, limit), limit, x); }

using I32 = hn::Rebind<int32_t, F32>;
// 2^n for n in [-126, 127].
HWY_INLINE V32 power_of_two(hn::Vec<I32> n) {
  return hn::BitCast(F32(), hn::ShiftLeft<23>(hn::Add(n, hn::Set(I32(), 127))));
}
// In two steps: results may be subnormal or overflow to infinity where 2^n alone is neither.
HWY_INLINE V32 scale_by_power(V32 x, hn::Vec<I32> n) {
  const auto half = hn::ShiftRight<1>(n);
  return hn::Mul(hn::Mul(x, power_of_two(half)), power_of_two(hn::Sub(n, half)));
}

inline constexpr float kLog2E = 1.44269504f;
inline constexpr float kLn2High = 0.693359375f,
                       kLn2Low = -2.12194440e-4f;  // high has 10 bits: times n is exact

// x = n ln2 + r
HWY_INLINE V32 reduce_exp(V32 x, hn::Vec<I32>& n) {
  n = hn::NearestInt(hn::Mul(x, constant(kLog2E)));
  const V32 nf = hn::ConvertTo(F32(), n);
  return hn::NegMulAdd(nf, constant(kLn2Low), hn::NegMulAdd(nf, constant(kLn2High), x));
}
HWY_INLINE V32 exp_of_reduced(V32 r) {
  const V32 p = polynomial(r, 0.49999994f, 0.1666652f, 0.041668393f, 0.008368781f, 0.0013814474f);
  return hn::Add(hn::MulAdd(hn::Mul(r, r), p, r), constant(1.0f));
}
HWY_INLINE V32 expm1_of_reduced(V32 r) {
  const V32 p = polynomial(r, 0.5f, 0.16666667f, 0.041666355f, 0.008333273f, 0.0013941103f, 0.00019914303f);
  return hn::MulAdd(hn::Mul(r, r), p, r);
}

HWY_INLINE V32 exp_v(V32 x) {
  x = at_least(at_most(x, constant(89.0f)), constant(-104.0f));
  hn::Vec<I32> n;
  const V32 r = reduce_exp(x, n);
  return scale_by_power(exp_of_reduced(r), n);
}

HWY_INLINE V32 exp2_v(V32 x) {
  x = at_least(at_most(x, constant(129.0f)), constant(-151.0f));
  const auto n = hn::NearestInt(x);
  const V32 r = hn::Mul(hn::Sub(x, hn::ConvertTo(F32(), n)), constant(0.693147181f));
  return scale_by_power(exp_of_reduced(r), n);
}

// e^x - 1 = 2^n (e^r - 1) + (2^n - 1), halved so that n = 128 still has a 2^n.
HWY_INLINE V32 expm1_v(V32 x) {
  x = at_least(at_most(x, constant(89.0f)), constant(-25.0f));
  hn::Vec<I32> n;
  const V32 m = expm1_of_reduced(reduce_exp(x, n));
  const V32 half_power = power_of_two(hn::Sub(n, hn::Set(I32(), 1)));
  const V32 half = hn::MulAdd(half_power, m, hn::Sub(half_power, constant(0.5f)));
  return hn::Add(half, half);
}

// x = 2^e (1 + f), 1 + f in [sqrt(1/2), sqrt(2)); returns log(1 + f) without its first term f, so that the
// caller adds f last.
HWY_INLINE V32 split_log(V32 x, V32& e, V32& f) {
  const auto subnormal = hn::Lt(x, constant(1.17549435e-38f));
  x = hn::IfThenElse(subnormal, hn::Mul(x, constant(0x1p25f)), x);
  const auto bits = hn::Add(hn::BitCast(I32(), x), hn::Set(I32(), 0x3f800000 - 0x3f3504f3));
  e = hn::Sub(hn::ConvertTo(F32(), hn::Sub(hn::ShiftRight<23>(bits), hn::Set(I32(), 127))),
              hn::IfThenElseZero(subnormal, constant(25.0f)));
  const auto mantissa = hn::Add(hn::And(bits, hn::Set(I32(), 0x007fffff)), hn::Set(I32(), 0x3f3504f3));
  f = hn::Sub(hn::BitCast(F32(), mantissa), constant(1.0f));
  const V32 p = polynomial(f, 0.33333313f, -0.25000009f, 0.2000212f, -0.16667996f, 0.14219552f, -0.12405588f,
                           0.1188816f, -0.11675655f, 0.06746648f);
  const V32 f2 = hn::Mul(f, f);
  return hn::MulAdd(hn::Mul(f2, f), p, hn::Mul(f2, constant(-0.5f)));
}
// What a logarithm gives outside (0, inf), over y elsewhere.
HWY_INLINE V32 log_limits(V32 x, V32 y) {
  constexpr float kInfinity = __builtin_inff();
  y = hn::IfThenElse(hn::Lt(x, constant(kInfinity)), y, x);  // inf and NaN
  y = hn::IfThenElse(hn::Lt(x, constant(0.0f)), constant(__builtin_nanf("")), y);
  return hn::IfThenElse(hn::Eq(x, constant(0.0f)), constant(-kInfinity), y);
}
HWY_INLINE V32 log_v(V32 x) {
  V32 e, f;
  const V32 tail = split_log(x, e, f);
  return log_limits(x, hn::MulAdd(e, constant(kLn2High), hn::Add(f, hn::MulAdd(e, constant(kLn2Low), tail))));
}
HWY_INLINE V32 log2_v(V32 x) {
  V32 e, f;
  const V32 tail = split_log(x, e, f);
  return log_limits(x, hn::MulAdd(hn::Add(f, tail), constant(kLog2E), e));
}

// log(1 + x): the rounding of u = 1 + x is made good by the factor x / (u - 1).
HWY_INLINE V32 log1p_v(V32 x) {
  const V32 one = constant(1.0f);
  const V32 u = hn::Add(x, one);
  const V32 rounded = hn::Sub(u, one);
  const auto tiny = hn::Eq(rounded, hn::Zero(F32()));
  const V32 y = hn::Mul(log_v(u), hn::Div(x, hn::IfThenElse(tiny, one, rounded)));
  const auto keep = hn::Or(tiny, hn::Eq(x, constant(__builtin_inff())));
  return hn::IfThenElse(keep, x, y);
}

HWY_INLINE V32 tanh_v(V32 x) {
  const V32 a = at_most(hn::Abs(x), constant(9.5f));  // 1 to float from 9.02 on
  const V32 t = expm1_v(hn::Add(a, a));
  return hn::CopySignToAbs(hn::Div(t, hn::Add(t, constant(2.0f))), x);
}

HWY_INLINE V32 sigmoid_v(V32 x) {
  const V32 one = constant(1.0f);
  return hn::Div(one, hn::Add(one, exp_v(hn::Neg(x))));
}

// Up to 1 a polynomial in x^2, beyond it 1 - exp(p(|x|)), p being log(erfc).
HWY_INLINE V32 erf_v(V32 x) {
  const V32 a = at_most(hn::Abs(x), constant(4.0f));  // 1 to float from 3.92 on
  const V32 t = hn::Mul(a, a);
  const V32 q = polynomial(t, 0.12837917f, -0.37612626f, 0.112835854f, -0.026853813f, 0.0051883277f,
                           -0.0008010195f, 7.8538644e-05f);
  const V32 p = polynomial(a, 0.00018803639f, -1.1295784f, -0.6332199f, -0.10841855f, 0.025208239f,
                           -0.004204555f, 0.00044133509f, -2.1686747e-05f);
  hn::Vec<I32> n;
  const V32 r = reduce_exp(p, n);
  const V32 large = hn::NegMulAdd(exp_of_reduced(r), power_of_two(n), constant(1.0f));
  const V32 small = hn::MulAdd(a, q, a);
  return hn::CopySignToAbs(hn::IfThenElse(hn::Lt(a, constant(1.0f)), small, large), x);
}

}  // namespace sixfold::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
