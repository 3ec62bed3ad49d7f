#include "sixfold/cpu/vector_math.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sixfold/cpu/vector_math.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// Order matters: Highway's headers fix the target for those below.
#include "hwy/contrib/math/math-inl.h"
#include "sixfold/cpu/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sixfold::cpu::HWY_NAMESPACE {

// A function of one vector; what its parameters are is read once per span.
#define SF_UNARY(name, expression)                                \
  struct name {                                                   \
    explicit name(const UnaryParams&) {}                          \
    HWY_INLINE V32 operator()(V32 x) const { return expression; } \
  };
SF_UNARY(Abs, hn::Abs(x))
SF_UNARY(Neg, hn::Neg(x))
SF_UNARY(Exp, exp_v(x))
SF_UNARY(Exp2, exp2_v(x))
SF_UNARY(Expm1, expm1_v(x))
SF_UNARY(Log, log_v(x))
SF_UNARY(Log1p, log1p_v(x))
SF_UNARY(Log2, log2_v(x))
SF_UNARY(Sqrt, hn::Sqrt(x))
SF_UNARY(Rsqrt, hn::Div(constant(1.0f), hn::Sqrt(x)))
SF_UNARY(Reciprocal, hn::Div(constant(1.0f), x))
SF_UNARY(Tanh, tanh_v(x))
SF_UNARY(Sigmoid, sigmoid_v(x))
SF_UNARY(Erf, erf_v(x))
SF_UNARY(Ceil, hn::Ceil(x))
SF_UNARY(Floor, hn::Floor(x))
SF_UNARY(Round, hn::Round(x))
SF_UNARY(Trunc, hn::Trunc(x))
SF_UNARY(Relu, at_least(x, hn::Zero(F32())))
SF_UNARY(Silu, hn::Div(x, hn::Add(constant(1.0f), exp_v(hn::Neg(x)))))
SF_UNARY(Hardsigmoid, hn::Mul(at_most(at_least(hn::Add(x, constant(3.0f)), hn::Zero(F32())), constant(6.0f)),
                              constant(1.0f / 6.0f)))
SF_UNARY(Hardswish, hn::Mul(x, Hardsigmoid(UnaryParams{})(x)))
SF_UNARY(GeluErf, hn::Mul(hn::Mul(constant(0.5f), x),
                          hn::Add(constant(1.0f), erf_v(hn::Mul(x, constant(0.70710678f))))))
#undef SF_UNARY

struct Sign {
  explicit Sign(const UnaryParams&) {}
  HWY_INLINE V32 operator()(V32 x) const {
    const V32 zero = hn::Zero(F32());
    return hn::Sub(hn::IfThenElseZero(hn::Gt(x, zero), constant(1.0f)),
                   hn::IfThenElseZero(hn::Lt(x, zero), constant(1.0f)));
  }
};

struct GeluTanh {
  explicit GeluTanh(const UnaryParams&) {}
  HWY_INLINE V32 operator()(V32 x) const {
    const V32 cubic = hn::MulAdd(hn::Mul(hn::Mul(x, x), x), constant(0.044715f), x);
    const V32 t = tanh_v(hn::Mul(cubic, constant(0.79788456f)));
    return hn::Mul(hn::Mul(constant(0.5f), x), hn::Add(constant(1.0f), t));
  }
};

// tanh(log(1 + e^x)) = n / (n + 2) with n = e^x (e^x + 2); from 20 on it is 1 to float.
struct Mish {
  explicit Mish(const UnaryParams&) {}
  HWY_INLINE V32 operator()(V32 x) const {
    const V32 e = exp_v(at_most(x, constant(20.0f)));
    const V32 n = hn::Mul(e, hn::Add(e, constant(2.0f)));
    return hn::Mul(x, hn::Div(n, hn::Add(n, constant(2.0f))));
  }
};

struct Elu {
  explicit Elu(const UnaryParams& p)
      : negative(static_cast<float>(p.a) * static_cast<float>(p.b)),
        positive(static_cast<float>(p.b)),
        input(static_cast<float>(p.c)) {}
  HWY_INLINE V32 operator()(V32 x) const {
    const V32 below = hn::Mul(expm1_v(hn::Mul(x, constant(input))), constant(negative));
    return hn::IfThenElse(hn::Le(x, hn::Zero(F32())), below, hn::Mul(x, constant(positive)));
  }
  float negative, positive, input;
};

struct LeakyRelu {
  explicit LeakyRelu(const UnaryParams& p) : slope(static_cast<float>(p.a)) {}
  HWY_INLINE V32 operator()(V32 x) const {
    return hn::IfThenElse(hn::Gt(x, hn::Zero(F32())), x, hn::Mul(x, constant(slope)));
  }
  float slope;
};

struct Softplus {
  explicit Softplus(const UnaryParams& p)
      : beta(static_cast<float>(p.a)), threshold(static_cast<float>(p.b)) {}
  HWY_INLINE V32 operator()(V32 x) const {
    const V32 y = hn::Mul(x, constant(beta));
    return hn::IfThenElse(hn::Gt(y, constant(threshold)), x, hn::Div(log1p_v(exp_v(y)), constant(beta)));
  }
  float beta, threshold;
};

struct Clamp {
  explicit Clamp(const UnaryParams& p) : low(static_cast<float>(p.a)), high(static_cast<float>(p.b)) {}
  HWY_INLINE V32 operator()(V32 x) const { return at_most(at_least(x, constant(low)), constant(high)); }
  float low, high;
};

// Highway's reduction is good to about 39000; the few lanes beyond, and infinities, go to libm one by one.
template <float (*libm)(float)>
HWY_NOINLINE V32 far_lanes(V32 x, V32 y) {
  HWY_ALIGN float xs[HWY_MAX_BYTES / sizeof(float)];
  HWY_ALIGN float ys[HWY_MAX_BYTES / sizeof(float)];
  const F32 d;
  hn::Store(x, d, xs);
  hn::Store(y, d, ys);
  for (size_t i = 0; i < hn::Lanes(d); ++i)
    if (!(std::abs(xs[i]) <= 30000.0f)) ys[i] = libm(xs[i]);
  return hn::Load(d, ys);
}
inline float libm_sin(float x) { return std::sin(x); }
inline float libm_cos(float x) { return std::cos(x); }
struct Sin {
  explicit Sin(const UnaryParams&) {}
  HWY_INLINE V32 operator()(V32 x) const {
    const F32 d;
    const V32 y = hn::Sin(d, x);
    return hn::AllTrue(d, hn::Le(hn::Abs(x), constant(30000.0f))) ? y : far_lanes<libm_sin>(x, y);
  }
};
struct Cos {
  explicit Cos(const UnaryParams&) {}
  HWY_INLINE V32 operator()(V32 x) const {
    const F32 d;
    const V32 y = hn::Cos(d, x);
    return hn::AllTrue(d, hn::Le(hn::Abs(x), constant(30000.0f))) ? y : far_lanes<libm_cos>(x, y);
  }
};

template <typename F>
void apply(const float* in, float* out, size_t n, const UnaryParams& params) {
  const F f(params);
  const F32 d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(hn::LoadU(d, in + i)), d, out + i);
  if (i == n) return;
  HWY_ALIGN float rest[HWY_MAX_BYTES / sizeof(float)] = {};
  std::memcpy(rest, in + i, (n - i) * sizeof(float));
  hn::Store(f(hn::Load(d, rest)), d, rest);
  std::memcpy(out + i, rest, (n - i) * sizeof(float));
}

// Null for an op that this build does not keep, whose code is then not there.
#define SF_OP(id, function) \
  case Op::id:              \
    return keeps(Op::id) ? (function) : nullptr;

UnaryF32::Function function_of(Op op, bool tanh_gelu) {
  switch (op) {
    SF_OP(abs, apply<Abs>)
    SF_OP(neg, apply<Neg>)
    SF_OP(exp, apply<Exp>)
    SF_OP(exp2, apply<Exp2>)
    SF_OP(expm1, apply<Expm1>)
    SF_OP(log, apply<Log>)
    SF_OP(log1p, apply<Log1p>)
    SF_OP(log2, apply<Log2>)
    SF_OP(sqrt, apply<Sqrt>)
    SF_OP(rsqrt, apply<Rsqrt>)
    SF_OP(reciprocal, apply<Reciprocal>)
    SF_OP(sin, apply<Sin>)
    SF_OP(cos, apply<Cos>)
    SF_OP(tanh, apply<Tanh>)
    SF_OP(sigmoid, apply<Sigmoid>)
    SF_OP(erf, apply<Erf>)
    SF_OP(ceil, apply<Ceil>)
    SF_OP(floor, apply<Floor>)
    SF_OP(round, apply<Round>)
    SF_OP(trunc, apply<Trunc>)
    SF_OP(sign, apply<Sign>)
    SF_OP(relu, apply<Relu>)
    SF_OP(silu, apply<Silu>)
    SF_OP(mish, apply<Mish>)
    SF_OP(hardswish, apply<Hardswish>)
    SF_OP(hardsigmoid, apply<Hardsigmoid>)
    SF_OP(gelu, tanh_gelu ? apply<GeluTanh> : apply<GeluErf>)
    SF_OP(elu, apply<Elu>)
    SF_OP(leaky_relu, apply<LeakyRelu>)
    SF_OP(softplus, apply<Softplus>)
    SF_OP(clamp, apply<Clamp>)
    default:
      return nullptr;
  }
}

// What other kernels are made of, whether or not their ops are kept.
void exp_all(const float* in, float* out, size_t n) { apply<Exp>(in, out, n, {}); }
void log_all(const float* in, float* out, size_t n) { apply<Log>(in, out, n, {}); }
void tanh_all(const float* in, float* out, size_t n) { apply<Tanh>(in, out, n, {}); }
void sigmoid_all(const float* in, float* out, size_t n) { apply<Sigmoid>(in, out, n, {}); }

float exp_sum(const float* in, float scale, float shift, float* out, size_t n) {
  const F32 d;
  const size_t lanes = hn::Lanes(d);
  V32 sum = hn::Zero(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const V32 y = exp_v(hn::MulSub(hn::LoadU(d, in + i), constant(scale), constant(shift)));
    sum = hn::Add(sum, y);
    hn::StoreU(y, d, out + i);
  }
  float total = hn::GetLane(hn::SumOfLanes(d, sum));
  if (i == n) return total;
  HWY_ALIGN float rest[HWY_MAX_BYTES / sizeof(float)] = {};
  std::memcpy(rest, in + i, (n - i) * sizeof(float));
  hn::Store(exp_v(hn::MulSub(hn::Load(d, rest), constant(scale), constant(shift))), d, rest);
  std::memcpy(out + i, rest, (n - i) * sizeof(float));
  for (size_t k = 0; k < n - i; ++k) total += rest[k];
  return total;
}

}  // namespace sixfold::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sixfold::cpu {
namespace {

HWY_EXPORT(function_of);
HWY_EXPORT(exp_sum);
HWY_EXPORT(exp_all);
HWY_EXPORT(log_all);
HWY_EXPORT(tanh_all);
HWY_EXPORT(sigmoid_all);

// Functions that no model spends its time in.
template <Op op>
void apply_libm(const float* in, float* out, size_t n, const UnaryParams& params) {
  for (size_t i = 0; i < n; ++i) out[i] = apply_unary<float>(op, in[i], params);
}
UnaryF32::Function libm_function(Op op) {
  switch (op) {
    SF_OP(log10, apply_libm<Op::log10>)
    SF_OP(tan, apply_libm<Op::tan>)
    SF_OP(asin, apply_libm<Op::asin>)
    SF_OP(acos, apply_libm<Op::acos>)
    SF_OP(atan, apply_libm<Op::atan>)
    SF_OP(sinh, apply_libm<Op::sinh>)
    SF_OP(cosh, apply_libm<Op::cosh>)
    SF_OP(asinh, apply_libm<Op::asinh>)
    SF_OP(acosh, apply_libm<Op::acosh>)
    SF_OP(atanh, apply_libm<Op::atanh>)
    SF_OP(erfinv, apply_libm<Op::erfinv>)
    SF_OP(lgamma, apply_libm<Op::lgamma>)
    default:
      return nullptr;
  }
}

}  // namespace

UnaryParams unary_params(Op op, const Attrs& attrs) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto limit = [&](std::string_view name, double otherwise) {
    const Attr* attr = attrs.find(name);
    return !attr || std::holds_alternative<std::monostate>(*attr) ? otherwise : attrs.real(name);
  };
  switch (op) {
    case Op::gelu:
      return {attrs.text("approximate") == "tanh" ? 1.0 : 0.0};
    case Op::elu:
      return {attrs.real("alpha"), attrs.real("scale"), attrs.real("input_scale")};
    case Op::leaky_relu:
      return {attrs.real("slope")};
    case Op::softplus:
      return {attrs.real("beta"), attrs.real("threshold")};
    case Op::clamp:
      return {limit("min", -kInfinity), limit("max", kInfinity)};
    default:
      return {};
  }
}

Result<UnaryF32> unary_f32(Op op, const Attrs& attrs) {
  const UnaryParams params = unary_params(op, attrs);
  UnaryF32::Function function = HWY_DYNAMIC_DISPATCH(function_of)(op, params.a != 0);
  if (!function) function = libm_function(op);
  if (!function) return unsupported(op, " is not a float function of one operand");
  return UnaryF32(function, params);
}

Result<UnaryF32> activation_f32(const Attrs& attrs) {
  const std::string& name = attrs.text("activation");
  if (name == "none") return UnaryF32();
  const std::optional<Op> op = find_op(name);
  if (!op) return unsupported("activation ", name, " is not an op");
  return unary_f32(*op, attrs);
}

void exp_f32(const float* in, float* out, size_t n) { HWY_DYNAMIC_DISPATCH(exp_all)(in, out, n); }
void log_f32(const float* in, float* out, size_t n) { HWY_DYNAMIC_DISPATCH(log_all)(in, out, n); }
void tanh_f32(const float* in, float* out, size_t n) { HWY_DYNAMIC_DISPATCH(tanh_all)(in, out, n); }
void sigmoid_f32(const float* in, float* out, size_t n) { HWY_DYNAMIC_DISPATCH(sigmoid_all)(in, out, n); }
float exp_sum_f32(const float* in, float scale, float shift, float* out, size_t n) {
  return HWY_DYNAMIC_DISPATCH(exp_sum)(in, scale, shift, out, n);
}

double erf_inverse(double y) {
  if (std::isnan(y) || std::abs(y) > 1) return std::numeric_limits<double>::quiet_NaN();
  if (std::abs(y) == 1) return std::copysign(std::numeric_limits<double>::infinity(), y);
  // Winitzki's closed form is right to 2e-3; each Newton step on erf (on erfc near the ends, where erf
  // saturates) doubles the digits.
  const double w = std::log1p(-y * y);
  const double t = 2 / (std::numbers::pi * 0.147) + w / 2;
  double x = std::copysign(std::sqrt(std::sqrt(t * t - w / 0.147) - t), y);
  for (int i = 0; i < 3; ++i) {
    const double error = std::abs(y) < 0.5
                             ? std::erf(x) - y
                             : ((1 - std::abs(y)) - std::erfc(std::abs(x))) * std::copysign(1.0, y);
    x -= error / (2 * std::numbers::inv_sqrtpi * std::exp(-x * x));
  }
  return x;
}

}  // namespace sixfold::cpu
#endif
