#include "sixfold/cpu/half_rows.h"

#include "sixfold/cpu/quant.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sixfold/cpu/half_rows.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "sixfold/cpu/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sixfold::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using OneFloat = hn::CappedTag<float, 1>;  // for the rest of a row
using Doubles = hn::ScalableTag<double>;
using OneDouble = hn::CappedTag<double, 1>;

template <HalfOp Op, HalfRounding Rounding, typename D>
void pair_row(D d, const float* a, int64_t step_a, const float* b, int64_t step_b, float* y, int64_t n,
              int64_t* at) {
  const auto only_a = hn::Set(d, *a), only_b = hn::Set(d, *b);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = *at;
  for (; i + lanes <= n; i += lanes) {
    const auto u = step_a ? hn::LoadU(d, a + i) : only_a;
    const auto v = step_b ? hn::LoadU(d, b + i) : only_b;
    auto w = u;
    if constexpr (Op == HalfOp::add) w = hn::Add(u, v);
    if constexpr (Op == HalfOp::subtract) w = hn::Sub(u, v);
    if constexpr (Op == HalfOp::multiply) w = hn::Mul(u, v);
    if constexpr (Op == HalfOp::maximum) w = hn::IfThenElse(hn::Gt(u, v), u, v);
    if constexpr (Op == HalfOp::minimum) w = hn::IfThenElse(hn::Lt(u, v), u, v);
    if constexpr (Op == HalfOp::slope) w = hn::IfThenElse(hn::Lt(u, hn::Zero(d)), hn::Mul(u, v), u);
    hn::StoreU(Rounding == HalfRounding::vector ? to_device_halves(d, w) : to_ieee_halves(d, w), d, y + i);
  }
  *at = i;
}

// The reciprocal is of 64 bits, and so is the product.
template <typename D>
void divide_row(D d, const float* a, int64_t step_a, const float* b, int64_t step_b, float* y, int64_t n,
                int64_t* at) {
  const hn::Rebind<float, D> df;
  const auto only_a = hn::Set(df, *a), only_b = hn::Set(df, *b);
  const auto most = hn::Set(d, 65504.0), one = hn::Set(d, 1.0);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = *at;
  for (; i + lanes <= n; i += lanes) {
    const auto u = hn::PromoteTo(d, step_a ? hn::LoadU(df, a + i) : only_a);
    const auto v = hn::PromoteTo(d, step_b ? hn::LoadU(df, b + i) : only_b);
    const auto small = hn::Lt(hn::Mul(hn::Abs(v), most), one);
    const auto reciprocal = hn::IfThenElse(small, hn::CopySign(most, v), hn::Div(one, v));
    hn::StoreU(to_device_halves(df, hn::DemoteTo(df, hn::Mul(u, reciprocal))), df, y + i);
  }
  *at = i;
}

template <HalfRounding Rounding>
void pair_of(HalfOp op, const float* a, int64_t step_a, const float* b, int64_t step_b, float* y, int64_t n) {
  const auto run = [&]<HalfOp Op>() {
    int64_t i = 0;
    pair_row<Op, Rounding>(Floats(), a, step_a, b, step_b, y, n, &i);
    pair_row<Op, Rounding>(OneFloat(), a, step_a, b, step_b, y, n, &i);
  };
  switch (op) {
    case HalfOp::add:
      return run.template operator()<HalfOp::add>();
    case HalfOp::subtract:
      return run.template operator()<HalfOp::subtract>();
    case HalfOp::multiply:
      return run.template operator()<HalfOp::multiply>();
    case HalfOp::maximum:
      return run.template operator()<HalfOp::maximum>();
    case HalfOp::minimum:
      return run.template operator()<HalfOp::minimum>();
    case HalfOp::slope:
      return run.template operator()<HalfOp::slope>();
    case HalfOp::divide:
      int64_t i = 0;
      divide_row(Doubles(), a, step_a, b, step_b, y, n, &i);
      return divide_row(OneDouble(), a, step_a, b, step_b, y, n, &i);
  }
}

void half_pair_here(HalfOp op, HalfRounding rounding, const float* a, int64_t step_a, const float* b,
                    int64_t step_b, float* y, int64_t n) {
  if (rounding == HalfRounding::vector)
    pair_of<HalfRounding::vector>(op, a, step_a, b, step_b, y, n);
  else
    pair_of<HalfRounding::ieee>(op, a, step_a, b, step_b, y, n);
}

bool all_below_here(const float* x, int64_t n, float limit) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto most = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) most = hn::Max(most, hn::Abs(hn::LoadU(d, x + i)));
  bool below = hn::AllTrue(d, hn::Lt(most, hn::Set(d, limit)));
  for (; i < n; ++i) below = below && (x[i] < 0 ? -x[i] : x[i]) < limit;
  return below;
}

template <typename D>
void clamp_row_of(D d, const float* x, float* y, int64_t n, float min, float max, int64_t* at) {
  const auto low = hn::Set(d, min), high = hn::Set(d, max);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = *at;
  for (; i + lanes <= n; i += lanes) {
    auto v = hn::LoadU(d, x + i);
    v = hn::IfThenElse(hn::Lt(v, high), v, high);
    hn::StoreU(hn::IfThenElse(hn::Lt(low, v), v, low), d, y + i);
  }
  *at = i;
}
void clamp_halves_here(const float* x, float* y, int64_t n, float min, float max) {
  int64_t i = 0;
  clamp_row_of(Floats(), x, y, n, min, max, &i);
  clamp_row_of(OneFloat(), x, y, n, min, max, &i);
}

template <typename D>
void lookup_row(D d, const float* table, const float* x, float* y, int64_t n, int64_t* at) {
  const hn::RebindToSigned<D> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = *at;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    const auto bits = hn::BitCast(di, v), size = hn::And(bits, hn::Set(di, 0x7fffffff));
    const auto small = hn::ConvertTo(di, hn::Mul(hn::Abs(v), hn::Set(d, 16777216.0f)));
    auto code = hn::ShiftRight<13>(hn::Sub(size, hn::Set(di, 0x38000000)));
    code = hn::IfThenElse(hn::Lt(size, hn::Set(di, 0x38800000)), small, code);
    const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(di, 0x8000));
    code = hn::Or(hn::Min(code, hn::Set(di, 0x7fff)), sign);
    hn::StoreU(hn::GatherIndex(d, table, code), d, y + i);
  }
  *at = i;
}
void lookup_halves_here(const float* table, const float* x, float* y, int64_t n) {
  int64_t i = 0;
  lookup_row(Floats(), table, x, y, n, &i);
  lookup_row(OneFloat(), table, x, y, n, &i);
}

template <typename D>
void round_row(D d, const double* x, float* y, int64_t n, int64_t* at) {
  const hn::Rebind<float, D> df;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = *at;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(to_device_halves(df, hn::DemoteTo(df, hn::LoadU(d, x + i))), df, y + i);
  *at = i;
}
void round_halves_here(const double* x, float* y, int64_t n) {
  int64_t i = 0;
  round_row(Doubles(), x, y, n, &i);
  round_row(OneDouble(), x, y, n, &i);
}

template <typename D>
void blend_columns(D d, const Blend& b, double* y, int64_t n, int64_t* at) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = *at;
  for (; i + lanes <= n; i += lanes) {
    auto sum = hn::Zero(d);
    for (size_t r = 0; r < b.rows.size(); ++r)
      for (size_t c = 0; c < b.columns.size(); ++c) {
        const auto weight = hn::Mul(hn::Set(d, b.rows[r]), hn::LoadU(d, b.columns[c] + i));
        sum = hn::Add(sum, hn::Mul(weight, hn::LoadU(d, b.x[r * b.columns.size() + c] + i)));
      }
    hn::StoreU(sum, d, y + i);
  }
  *at = i;
}
void blend_row_here(const Blend& b, double* y, int64_t n) {
  int64_t i = 0;
  blend_columns(Doubles(), b, y, n, &i);
  blend_columns(OneDouble(), b, y, n, &i);
}

// 2^floor(log2 |x|), x no subnormal.
template <typename D>
hn::Vec<D> power_below(D d, hn::Vec<D> x) {
  const hn::RebindToUnsigned<D> du;
  return hn::BitCast(d, hn::And(hn::BitCast(du, x), hn::Set(du, uint64_t{0x7ff} << 52)));
}

// QHalf::rounded of an exact number and its unit, 2^(exponent - 10); *unit becomes the result's. 0 is left.
template <typename D>
hn::Vec<D> round_own(D d, hn::Vec<D> exact, hn::Vec<D>* unit) {
  const auto units = hn::Div(exact, *unit), limit = hn::Set(d, 2048.0);
  const auto large = hn::Or(hn::Ge(units, limit), hn::Lt(units, hn::Neg(limit)));
  const auto in = hn::IfThenElse(large, hn::Mul(units, hn::Set(d, 0.5)), units);
  const auto fours = hn::Mul(hn::Floor(hn::Mul(in, hn::Set(d, 0.25))), hn::Set(d, 4.0));
  const auto rest = hn::Sub(in, fours);
  const auto between =
      hn::AndNot(large, hn::And(hn::Gt(rest, hn::Set(d, 1.5)), hn::Le(rest, hn::Set(d, 2.5))));
  const auto bound = hn::IfThenElse(large, hn::Set(d, 2.0), hn::Set(d, 1.5));
  auto whole = hn::IfThenElse(hn::Le(rest, bound), hn::Set(d, 1.0), hn::Set(d, 3.0));
  whole = hn::Add(fours, hn::IfThenElse(between, hn::Set(d, 2.0), whole));
  const auto scale = hn::IfThenElse(large, hn::Add(*unit, *unit), *unit);
  *unit = hn::IfThenElse(hn::Or(large, between), hn::Add(*unit, *unit), *unit);
  return hn::IfThenElse(hn::Eq(exact, hn::Zero(d)), exact, hn::Mul(whole, scale));
}
template <typename D>
hn::Vec<D> sum_unit(D d, hn::Vec<D> a, hn::Vec<D> b) {
  return hn::Mul(power_below(d, hn::Max(hn::Abs(a), hn::Abs(b))), hn::Set(d, 0x1p-10));
}

template <typename D>
void blend_own(D d, const double* a, const double* b, const double* f, int64_t step_f, double* y, int64_t n,
               int64_t* at) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto zero = hn::Zero(d);
  const hn::RebindToSigned<D> di;
  const auto negative = [&](hn::Vec<D> x) {
    return hn::MaskFromVec(hn::BitCast(d, hn::BroadcastSignBit(hn::BitCast(di, x))));
  };
  int64_t i = *at;
  for (; i + lanes <= n; i += lanes) {
    const auto u = hn::LoadU(d, a + i), v = hn::LoadU(d, b + i);
    const auto part = step_f ? hn::LoadU(d, f + i) : hn::Set(d, *f);
    // b - a: magnitudes of one sign are added without it.
    const auto outside = hn::AndNot(negative(u), negative(v));
    auto difference = hn::Sub(v, u);
    auto unit = sum_unit(d, u, v);
    difference = hn::IfThenElse(outside, hn::Neg(difference), difference);
    difference = round_own(d, difference, &unit);
    difference = hn::IfThenElse(outside, hn::Neg(difference), difference);
    unit = hn::Mul(unit, power_below(d, part));
    const auto product = round_own(d, hn::Mul(difference, part), &unit);
    unit = sum_unit(d, u, product);
    auto sum = round_own(d, hn::Add(u, product), &unit);
    // Nothing and nothing has the second's sign.
    sum = hn::IfThenElse(hn::And(hn::Eq(u, zero), hn::Eq(product, zero)), product, sum);
    hn::StoreU(hn::IfThenElse(hn::Eq(part, zero), u, sum), d, y + i);
  }
  *at = i;
}
void blend_own_row_here(const double* a, const double* b, const double* f, int64_t step_f, double* y,
                        int64_t n) {
  int64_t i = 0;
  blend_own(Doubles(), a, b, f, step_f, y, n, &i);
  blend_own(OneDouble(), a, b, f, step_f, y, n, &i);
}

}  // namespace sixfold::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sixfold::cpu {

HWY_EXPORT(half_pair_here);
HWY_EXPORT(all_below_here);
HWY_EXPORT(clamp_halves_here);
HWY_EXPORT(lookup_halves_here);
HWY_EXPORT(round_halves_here);
HWY_EXPORT(blend_row_here);
HWY_EXPORT(blend_own_row_here);

// quant_kernels() first: the environment may keep all SIMD code to fewer instructions.
void half_pair(HalfOp op, HalfRounding rounding, const float* a, int64_t step_a, const float* b,
               int64_t step_b, float* y, int64_t n) {
  quant_kernels();
  HWY_DYNAMIC_DISPATCH(half_pair_here)(op, rounding, a, step_a, b, step_b, y, n);
}
bool all_below(const float* x, int64_t n, float limit) {
  quant_kernels();
  return HWY_DYNAMIC_DISPATCH(all_below_here)(x, n, limit);
}
void clamp_halves(const float* x, float* y, int64_t n, float min, float max) {
  quant_kernels();
  HWY_DYNAMIC_DISPATCH(clamp_halves_here)(x, y, n, min, max);
}
void lookup_halves(const float* table, const float* x, float* y, int64_t n) {
  quant_kernels();
  HWY_DYNAMIC_DISPATCH(lookup_halves_here)(table, x, y, n);
}
void round_halves(const double* x, float* y, int64_t n) {
  quant_kernels();
  HWY_DYNAMIC_DISPATCH(round_halves_here)(x, y, n);
}
void blend_row(const Blend& blend, double* y, int64_t n) {
  quant_kernels();
  HWY_DYNAMIC_DISPATCH(blend_row_here)(blend, y, n);
}
void blend_own_row(const double* a, const double* b, const double* f, int64_t step_f, double* y, int64_t n) {
  quant_kernels();
  HWY_DYNAMIC_DISPATCH(blend_own_row_here)(a, b, f, step_f, y, n);
}

}  // namespace sixfold::cpu
#endif
