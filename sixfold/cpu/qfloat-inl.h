// Arithmetic of the vector unit's own floats (qfloat.h) on doubles that hold them. Included once for each
// target.
#if defined(SIXFOLD_CPU_QFLOAT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SIXFOLD_CPU_QFLOAT_INL_H_
#undef SIXFOLD_CPU_QFLOAT_INL_H_
#else
#define SIXFOLD_CPU_QFLOAT_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sixfold::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 2^e of numbers with exponent e, and 2^-e. Of 0 the product of both is 0, too.
template <typename D>
struct Powers {
  hn::Vec<D> power, inverse;
  Powers(D d, hn::Vec<D> v) {
    const hn::RebindToUnsigned<D> du;
    const auto exponent = hn::And(hn::BitCast(du, v), hn::Set(du, uint64_t{0x7FF} << 52));
    power = hn::BitCast(d, exponent);
    inverse = hn::BitCast(d, hn::Sub(hn::Set(du, uint64_t{0x7FE} << 52), exponent));
  }
};

// QFloat::rounded of so many units, as a number of these units.
template <typename D>
inline hn::Vec<D> rounded_units(D d, hn::Vec<D> units) {
  const auto one = hn::Set(d, 1.0), two = hn::Set(d, 2.0), three = hn::Set(d, 3.0);
  const auto large = hn::Ge(hn::Abs(units), hn::Set(d, 16777216.0));
  const auto v = hn::Mul(units, hn::IfThenElse(large, hn::Set(d, 0.5), one));
  const auto fours = hn::Mul(hn::Floor(hn::Mul(v, hn::Set(d, 0.25))), hn::Set(d, 4.0));
  const auto rest = hn::Sub(v, fours);
  const auto first = hn::IfThenElse(large, two, hn::Set(d, 1.5));
  const auto second = hn::IfThenElse(large, two, hn::Set(d, 2.5));
  const auto more =
      hn::IfThenElse(hn::Le(rest, first), one, hn::IfThenElse(hn::Le(rest, second), two, three));
  return hn::Mul(hn::Add(fours, more), hn::IfThenElse(large, two, one));
}

inline constexpr double kUnits = 8388608.0;  // in 1

// Of floats of 24 bits, which are taken as they are.
template <typename D>
inline hn::Vec<D> qfloat_product(D d, hn::Vec<D> a, hn::Vec<D> b) {
  const Powers<D> pa(d, a), pb(d, b);
  const auto mantissas = hn::Mul(hn::Mul(a, pa.inverse), hn::Mul(b, pb.inverse));
  const auto units = rounded_units(d, hn::Mul(mantissas, hn::Set(d, kUnits)));
  return hn::Mul(hn::Mul(units, hn::Set(d, 1 / kUnits)), hn::Mul(pa.power, pb.power));
}

// In units of the larger one. Two even significands of one power have units twice as large, as they are kept
// in these.
template <typename D>
inline hn::Vec<D> qfloat_sum(D d, hn::Vec<D> a, hn::Vec<D> b) {
  const Powers<D> pa(d, a), pb(d, b);
  const auto whole = [d](hn::Vec<D> v, hn::Vec<D> inverse) {
    const auto pairs = hn::Mul(hn::Mul(v, inverse), hn::Set(d, kUnits / 2));
    return hn::Eq(hn::Floor(pairs), pairs);
  };
  const auto even = hn::And(hn::And(whole(a, pa.inverse), whole(b, pb.inverse)), hn::Eq(pa.power, pb.power));
  const auto twice = hn::IfThenElse(even, hn::Set(d, 2.0), hn::Set(d, 1.0));
  const auto total = hn::Add(a, b), power = hn::Mul(hn::Max(pa.power, pb.power), twice);
  const auto mantissa = hn::Div(hn::Mul(total, hn::Min(pa.inverse, pb.inverse)), twice);
  const auto units = rounded_units(d, hn::Mul(mantissa, hn::Set(d, kUnits)));
  const auto sum = hn::Mul(hn::Mul(units, hn::Set(d, 1 / kUnits)), power);
  return hn::IfThenZeroElse(hn::Eq(total, hn::Zero(d)), sum);
}

}  // namespace sixfold::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
