#include <cstring>

#include "sixfold/cpu/scalar_binary.h"
#include "sixfold/cpu/vector_math.h"
#include "sixfold/ops/binary/binary.h"

namespace sixfold::cpu {
namespace {

// x^p for the exponents that models write as constants: one or two multiplications instead of a call of pow,
// which is also what torch computes. Null for others.
BinaryF32 constant_power(const TensorDesc& exponent) {
  if (!exponent.constant || exponent.count() != 1 || exponent.dtype != DType::f32) return nullptr;
  float p;
  std::memcpy(&p, exponent.constant, sizeof p);
#define SF_POWER(value, expression)                                                          \
  if (p == (value))                                                                          \
    return [](const float* a, int64_t stride, const float*, int64_t, float* out, size_t n) { \
      const auto f = [](float x) { return (expression); };                                   \
      if (stride == 1) {                                                                     \
        for (size_t i = 0; i < n; ++i) out[i] = f(a[i]);                                     \
      } else {                                                                               \
        for (size_t i = 0; i < n; ++i) out[i] = f(a[static_cast<int64_t>(i) * stride]);      \
      }                                                                                      \
    };
  SF_POWER(2.0f, x * x)
  SF_POWER(3.0f, x * x * x)
  SF_POWER(0.5f, std::sqrt(x))
  SF_POWER(-0.5f, 1.0f / std::sqrt(x))
  SF_POWER(-1.0f, 1.0f / x)
  SF_POWER(-2.0f, 1.0f / (x * x))
  SF_POWER(1.0f, x)
#undef SF_POWER
  return nullptr;
}

std::unique_ptr<Kernel> f32_kernel(const KernelCall& call, const BinaryLoop& loop, BinaryF32 f) {
  return make_kernel(
      [loop, f](const Buffers& buffers) -> Status {
        const float* a = buffers.input<float>(0);
        const float* b = buffers.input<float>(1);
        float* out = buffers.output<float>();
        loop.run(buffers.pool, kElementwiseGrain, [&](const BinaryLoop::Offsets& at, size_t n) {
          f(a + at[1], loop.stride(1), b + at[2], loop.stride(2), out + at[0], n);
        });
        return ok_status();
      },
      {.in_place = lies_alike(call.in[0], call.out[0])});
}

template <typename T>
std::unique_ptr<Kernel> half_kernel(const KernelCall& call, const BinaryLoop& loop, BinaryF32 f) {
  return make_kernel(
      [loop, f](const Buffers& buffers) -> Status {
        const T* a = buffers.input<T>(0);
        const T* b = buffers.input<T>(1);
        T* out = buffers.output<T>();
        loop.run(buffers.pool, kElementwiseGrain, [&](const BinaryLoop::Offsets& at, size_t n) {
          float x[256], y[256];
          for (size_t i = 0; i < n; i += 256) {
            const size_t count = std::min<size_t>(256, n - i);
            for (size_t k = 0; k < count; ++k) x[k] = a[at[1] + static_cast<int64_t>(i + k) * loop.stride(1)];
            for (size_t k = 0; k < count; ++k) y[k] = b[at[2] + static_cast<int64_t>(i + k) * loop.stride(2)];
            f(x, 1, y, 1, x, count);
            for (size_t k = 0; k < count; ++k) out[at[0] + static_cast<int64_t>(i + k)] = x[k];
          }
        });
        return ok_status();
      },
      {.in_place = lies_alike(call.in[0], call.out[0])});
}

template <Arithmetic op>
std::unique_ptr<Kernel> f64_kernel(const KernelCall& call, const BinaryLoop& loop) {
  return zip_kernel<double, double>(call, loop,
                                    [](double a, double b) { return apply_binary<op, double>(a, b); });
}
KernelResult f64_kernel(const KernelCall& call, const BinaryLoop& loop) {
#define SF_F64(op, id)                                                          \
  case Arithmetic::id:                                                          \
    if constexpr (keeps(Op::op)) return f64_kernel<Arithmetic::id>(call, loop); \
    break;
  switch (arithmetic_of(call.op, call.attrs)) {
    SF_F64(add, add)
    SF_F64(sub, sub)
    SF_F64(mul, mul)
    SF_F64(div, div)
    SF_F64(div, div_floor)
    SF_F64(div, div_trunc)
    SF_F64(fmod, fmod)
    SF_F64(remainder, remainder)
    SF_F64(pow, pow)
    SF_F64(minimum, minimum)
    SF_F64(maximum, maximum)
    SF_F64(atan2, atan2)
    SF_F64(prelu, prelu)
    default:
      break;
  }
#undef SF_F64
  return unsupported(call.op, " of f64");
}

// Whether this build has any of the ops of a stretch of the table.
constexpr bool keeps_any(Op first, Op last) {
  for (auto i = static_cast<int>(first); i <= static_cast<int>(last); ++i)
    if (keeps(static_cast<Op>(i))) return true;
  return false;
}

KernelResult float_kernel(const KernelCall& call, const BinaryLoop& loop) {
  if constexpr (keeps(DType::f64)) {
    if (call.in[0].dtype == DType::f64) return f64_kernel(call, loop);
  }
  BinaryF32 f = nullptr;
  if constexpr (keeps(Op::pow)) f = call.op == Op::pow ? constant_power(call.in[1]) : nullptr;
  if (!f) f = binary_f32(call.op, call.attrs);
  if (!f) return unsupported(call.op, " of ", call.in[0].dtype);
  if constexpr (keeps(DType::f16)) {
    if (call.in[0].dtype == DType::f16) return half_kernel<Half>(call, loop, f);
  }
  if constexpr (keeps(DType::bf16)) {
    if (call.in[0].dtype == DType::bf16) return half_kernel<BFloat16>(call, loop, f);
  }
  return f32_kernel(call, loop, f);
}

Status check_axes(const KernelCall& call, bool fits) {
  if (fits) return ok_status();
  return unsupported(call.op, " over more than ", BinaryLoop::kMaxAxes, " axes that do not merge");
}

// The element types do not matter to a choice, only their size.
template <typename T>
std::unique_ptr<Kernel> select_kernel(const KernelCall& call, const BroadcastLoop<4>& loop) {
  return make_kernel(
      [loop](const Buffers& buffers) -> Status {
        const bool* condition = buffers.input<bool>(0);
        const T* a = buffers.input<T>(1);
        const T* b = buffers.input<T>(2);
        T* out = buffers.output<T>();
        const int64_t sc = loop.stride(1), sa = loop.stride(2), sb = loop.stride(3);
        loop.run(buffers.pool, kElementwiseGrain, [&](const BroadcastLoop<4>::Offsets& at, size_t count) {
          const bool* c = condition + at[1];
          const T* x = a + at[2];
          const T* y = b + at[3];
          T* z = out + at[0];
          const auto n = static_cast<int64_t>(count);
          if (sc == 1 && sa == 1 && sb == 1) {
            for (int64_t i = 0; i < n; ++i) z[i] = c[i] ? x[i] : y[i];
          } else if (sc == 1 && sa == 0 && sb == 1) {
            const T value = *x;
            for (int64_t i = 0; i < n; ++i) z[i] = c[i] ? value : y[i];
          } else if (sc == 1 && sa == 1 && sb == 0) {
            const T value = *y;
            for (int64_t i = 0; i < n; ++i) z[i] = c[i] ? x[i] : value;
          } else {
            for (int64_t i = 0; i < n; ++i) z[i] = c[i * sc] ? x[i * sa] : y[i * sb];
          }
        });
        return ok_status();
      },
      {.in_place = lies_alike(call.in[0], call.out[0])});
}

}  // namespace

KernelResult binary(const KernelCall& call) {
  const BinaryLoop loop({&call.out[0], &call.in[0], &call.in[1]});
  SF_TRY(check_axes(call, loop.fits()));
  if constexpr (keeps_any(Op::eq, Op::logical_xor)) {
    if (call.op >= Op::eq && call.op <= Op::logical_xor) return compare_kernel(call, loop);
  }
  if (is_float(call.in[0].dtype)) return float_kernel(call, loop);
  return integer_kernel(call, loop);
}

KernelResult where(const KernelCall& call) {
  const BroadcastLoop<4> loop({&call.out[0], &call.in[0], &call.in[1], &call.in[2]});
  SF_TRY(check_axes(call, loop.fits()));
  switch (size_of(call.out[0].dtype)) {
    case 1:
      return select_kernel<uint8_t>(call, loop);
    case 2:
      return select_kernel<uint16_t>(call, loop);
    case 4:
      return select_kernel<uint32_t>(call, loop);
    default:
      return select_kernel<uint64_t>(call, loop);
  }
}

// The weight becomes [C, 1, ...]: channels are axis 1.
KernelResult prelu(const KernelCall& call) {
  TensorDesc weight = call.in[1];
  for (size_t d = 2; d < call.in[0].rank(); ++d) {
    weight.shape.push_back(1);
    weight.strides.push_back(1);
  }
  if (call.in[0].rank() == 0) weight.shape.clear(), weight.strides.clear();
  const BinaryLoop loop({&call.out[0], &call.in[0], &weight});
  SF_TRY(check_axes(call, loop.fits()));
  return float_kernel(call, loop);
}

}  // namespace sixfold::cpu
