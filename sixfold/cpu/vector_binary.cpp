#include <algorithm>
#include <cstring>

#include "sixfold/cpu/scalar_binary.h"
#include "sixfold/cpu/vector_math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sixfold/cpu/vector_binary.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// Order matters: Highway's header fixes the target for the one below.
#include "sixfold/cpu/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sixfold::cpu::HWY_NAMESPACE {

#define SF_BINARY(name, expression)                                      \
  struct name {                                                          \
    HWY_INLINE V32 operator()(V32 a, V32 b) const { return expression; } \
  };
SF_BINARY(Add, hn::Add(a, b))
SF_BINARY(Sub, hn::Sub(a, b))
SF_BINARY(Mul, hn::Mul(a, b))
SF_BINARY(Div, hn::Div(a, b))
SF_BINARY(DivTrunc, hn::Trunc(hn::Div(a, b)))
// A comparison with NaN is false, so b is taken unless a is the NaN. (Ne(a, a) would not say so: it is
// ordered.)
SF_BINARY(Minimum, hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b))
SF_BINARY(Maximum, hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b))
SF_BINARY(Prelu, hn::IfThenElse(hn::Gt(a, hn::Zero(F32())), a, hn::Mul(a, b)))
#undef SF_BINARY

template <typename F>
HWY_INLINE void apply_rest(const float* a, bool a_moves, const float* b, bool b_moves, float* out, size_t n) {
  HWY_ALIGN float as[HWY_MAX_BYTES / sizeof(float)] = {};
  HWY_ALIGN float bs[HWY_MAX_BYTES / sizeof(float)] = {};
  for (size_t i = 0; i < n; ++i) as[i] = a_moves ? a[i] : *a;
  for (size_t i = 0; i < n; ++i) bs[i] = b_moves ? b[i] : *b;
  const F32 d;
  hn::Store(F()(hn::Load(d, as), hn::Load(d, bs)), d, as);
  std::memcpy(out, as, n * sizeof(float));
}

template <typename F>
void apply_dense(const float* a, bool a_moves, const float* b, bool b_moves, float* out, size_t n) {
  const F f;
  const F32 d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  if (a_moves && b_moves) {
    for (; i + lanes <= n; i += lanes) hn::StoreU(f(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, out + i);
  } else if (a_moves) {
    const V32 value = hn::Set(d, *b);
    for (; i + lanes <= n; i += lanes) hn::StoreU(f(hn::LoadU(d, a + i), value), d, out + i);
  } else if (b_moves) {
    const V32 value = hn::Set(d, *a);
    for (; i + lanes <= n; i += lanes) hn::StoreU(f(value, hn::LoadU(d, b + i)), d, out + i);
  } else {
    const V32 value = f(hn::Set(d, *a), hn::Set(d, *b));
    for (; i + lanes <= n; i += lanes) hn::StoreU(value, d, out + i);
  }
  if (i < n) apply_rest<F>(a_moves ? a + i : a, a_moves, b_moves ? b + i : b, b_moves, out + i, n - i);
}

// Other strides go through dense stretches, so that a value's code does not depend on the layout.
template <typename F>
void apply(const float* a, int64_t a_stride, const float* b, int64_t b_stride, float* out, size_t n) {
  if (a_stride >= 0 && a_stride <= 1 && b_stride >= 0 && b_stride <= 1)
    return apply_dense<F>(a, a_stride == 1, b, b_stride == 1, out, n);
  constexpr size_t kStretch = 256;
  HWY_ALIGN float as[kStretch], bs[kStretch];
  for (size_t i = 0; i < n; i += kStretch) {
    const size_t count = std::min(kStretch, n - i);
    for (size_t k = 0; k < count; ++k) as[k] = a[static_cast<int64_t>(i + k) * a_stride];
    for (size_t k = 0; k < count; ++k) bs[k] = b[static_cast<int64_t>(i + k) * b_stride];
    apply_dense<F>(as, true, bs, true, out + i, count);
  }
}

BinaryF32 binary_function(Arithmetic op) {
  switch (op) {
    case Arithmetic::add:
      return keeps(Op::add) ? apply<Add> : nullptr;
    case Arithmetic::sub:
      return keeps(Op::sub) ? apply<Sub> : nullptr;
    case Arithmetic::mul:
      return keeps(Op::mul) ? apply<Mul> : nullptr;
    case Arithmetic::div:
      return keeps(Op::div) ? apply<Div> : nullptr;
    case Arithmetic::div_trunc:
      return keeps(Op::div) ? apply<DivTrunc> : nullptr;
    case Arithmetic::minimum:
      return keeps(Op::minimum) ? apply<Minimum> : nullptr;
    case Arithmetic::maximum:
      return keeps(Op::maximum) ? apply<Maximum> : nullptr;
    case Arithmetic::prelu:
      return keeps(Op::prelu) ? apply<Prelu> : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace sixfold::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sixfold::cpu {
namespace {

HWY_EXPORT(binary_function);

template <Arithmetic op>
void apply_libm(const float* a, int64_t a_stride, const float* b, int64_t b_stride, float* out, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const auto at = static_cast<int64_t>(i);
    out[i] = apply_binary<op>(a[at * a_stride], b[at * b_stride]);
  }
}

}  // namespace

Arithmetic arithmetic_of(Op op, const Attrs& attrs) {
  switch (op) {
    case Op::add:
      return Arithmetic::add;
    case Op::sub:
      return Arithmetic::sub;
    case Op::mul:
      return Arithmetic::mul;
    case Op::div: {
      const std::string& rounding = attrs.text("rounding");
      return rounding == "floor"   ? Arithmetic::div_floor
             : rounding == "trunc" ? Arithmetic::div_trunc
                                   : Arithmetic::div;
    }
    case Op::fmod:
      return Arithmetic::fmod;
    case Op::remainder:
      return Arithmetic::remainder;
    case Op::pow:
      return Arithmetic::pow;
    case Op::minimum:
      return Arithmetic::minimum;
    case Op::maximum:
      return Arithmetic::maximum;
    case Op::atan2:
      return Arithmetic::atan2;
    case Op::prelu:
      return Arithmetic::prelu;
    case Op::bitwise_and:
      return Arithmetic::bitwise_and;
    case Op::bitwise_or:
      return Arithmetic::bitwise_or;
    case Op::bitwise_xor:
      return Arithmetic::bitwise_xor;
    case Op::shift_left:
      return Arithmetic::shift_left;
    case Op::shift_right:
      return Arithmetic::shift_right;
    default:
      return Arithmetic::none;
  }
}

BinaryF32 binary_f32(Op op, const Attrs& attrs) {
  const Arithmetic arithmetic = arithmetic_of(op, attrs);
  if (const BinaryF32 function = HWY_DYNAMIC_DISPATCH(binary_function)(arithmetic)) return function;
  switch (arithmetic) {
    case Arithmetic::div_floor:
      return keeps(Op::div) ? apply_libm<Arithmetic::div_floor> : nullptr;
    case Arithmetic::fmod:
      return keeps(Op::fmod) ? apply_libm<Arithmetic::fmod> : nullptr;
    case Arithmetic::remainder:
      return keeps(Op::remainder) ? apply_libm<Arithmetic::remainder> : nullptr;
    case Arithmetic::pow:
      return keeps(Op::pow) ? apply_libm<Arithmetic::pow> : nullptr;
    case Arithmetic::atan2:
      return keeps(Op::atan2) ? apply_libm<Arithmetic::atan2> : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace sixfold::cpu
#endif
