#include <algorithm>
#include <cmath>

#include "sixfold/cpu/broadcast.h"
#include "sixfold/cpu/convert.h"
#include "sixfold/cpu/kernel.h"
#include "sixfold/cpu/vector_math.h"

namespace sixfold::cpu {
namespace {

// Operand and result lie in memory alike, so one run over all elements is the whole loop.
Status check_layout(const KernelCall& call) {
  const TensorDesc& x = call.in[0];
  const TensorDesc& y = call.out[0];
  if (x.shape != y.shape) return fail(Code::Internal, call.op, " from ", x.shape, " to ", y.shape);
  for (size_t d = 0; d < x.rank(); ++d)
    if (x.shape[d] != 1 && x.strides[d] != y.strides[d])
      return fail(Code::Internal, call.op, " of strides ", x.strides, " into ", y.strides);
  return ok_status();
}

bool is_in_place(const KernelCall& call) { return size_of(call.in[0].dtype) == size_of(call.out[0].dtype); }

// out[i] = f(in[i]) with f fixed at plan time.
template <typename In, typename Out, typename F>
std::unique_ptr<Kernel> map_kernel(const KernelCall& call, F f) {
  const int64_t count = call.in[0].count();
  return make_kernel(
      [count, f](const Buffers& buffers) -> Status {
        const In* in = buffers.input<In>(0);
        Out* out = buffers.output<Out>();
        buffers.pool.for_ranges(count, kElementwiseGrain, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) out[i] = f(in[i]);
        });
        return ok_status();
      },
      {.in_place = is_in_place(call)});
}

std::unique_ptr<Kernel> float_kernel(const KernelCall& call, UnaryF32 f) {
  const int64_t count = call.in[0].count();
  return make_kernel(
      [count, f](const Buffers& buffers) -> Status {
        const float* in = buffers.input<float>(0);
        float* out = buffers.output<float>();
        buffers.pool.for_ranges(count, kElementwiseGrain, [&](int64_t begin, int64_t end) {
          f(in + begin, out + begin, static_cast<size_t>(end - begin));
        });
        return ok_status();
      },
      {.in_place = true});
}

// Half types: a stretch to float, the float function, and back.
template <typename T>
std::unique_ptr<Kernel> half_kernel(const KernelCall& call, UnaryF32 f) {
  const int64_t count = call.in[0].count();
  return make_kernel(
      [count, f](const Buffers& buffers) -> Status {
        const T* in = buffers.input<T>(0);
        T* out = buffers.output<T>();
        buffers.pool.for_ranges(count, kElementwiseGrain, [&](int64_t begin, int64_t end) {
          float stretch[256];
          for (int64_t i = begin; i < end; i += 256) {
            const int64_t n = std::min<int64_t>(256, end - i);
            for (int64_t k = 0; k < n; ++k) stretch[k] = in[i + k];
            f(stretch, stretch, static_cast<size_t>(n));
            for (int64_t k = 0; k < n; ++k) out[i + k] = stretch[k];
          }
        });
        return ok_status();
      },
      {.in_place = true});
}

int64_t integer_limit(const Attrs& attrs, std::string_view name, int64_t otherwise) {
  const Attr* attr = attrs.find(name);
  if (!attr || std::holds_alternative<std::monostate>(*attr)) return otherwise;
  return std::holds_alternative<Dim>(*attr) ? attrs.integer(name) : convert<int64_t>(attrs.real(name));
}

template <typename T>
KernelResult integer_kernel(const KernelCall& call) {
  // Wraps at the smallest value, which plain negation leaves open.
  const auto negate = [](T x) { return static_cast<T>(uint64_t{0} - static_cast<uint64_t>(x)); };
  switch (call.op) {
    case Op::abs:
      return map_kernel<T, T>(call,
                              [negate](T x) { return std::is_signed_v<T> && x < T(0) ? negate(x) : x; });
    case Op::neg:
      return map_kernel<T, T>(call, negate);
    case Op::sign:
      return map_kernel<T, T>(call, [](T x) { return static_cast<T>((x > T(0)) - (x < T(0))); });
    case Op::relu:
      return map_kernel<T, T>(call, [](T x) { return std::max(x, T(0)); });
    case Op::ceil:
    case Op::floor:
    case Op::round:
    case Op::trunc:
      return map_kernel<T, T>(call, [](T x) { return x; });
    case Op::bitwise_not:
      return map_kernel<T, T>(call, [](T x) {
        if constexpr (std::is_same_v<T, bool>)
          return !x;
        else
          return static_cast<T>(~x);
      });
    case Op::clamp: {
      if constexpr (!std::is_same_v<T, uint64_t>) {
        const int64_t lowest = static_cast<int64_t>(std::numeric_limits<T>::min());
        const int64_t highest = static_cast<int64_t>(std::numeric_limits<T>::max());
        const T low = static_cast<T>(std::clamp(integer_limit(call.attrs, "min", lowest), lowest, highest));
        const T high = static_cast<T>(std::clamp(integer_limit(call.attrs, "max", highest), lowest, highest));
        return map_kernel<T, T>(call, [low, high](T x) { return std::min(std::max(x, low), high); });
      }
      break;
    }
    default:
      break;
  }
  return unsupported(call.op, " of ", call.in[0].dtype);
}

KernelResult predicate_kernel(const KernelCall& call) {
  return with_type(call.in[0].dtype, [&](auto tag) -> KernelResult {
    using T = decltype(tag);
    switch (call.op) {
      case Op::logical_not:
        return map_kernel<T, bool>(call, [](T x) { return !convert<bool>(x); });
      case Op::isnan:
        return map_kernel<T, bool>(call, [](T x) {
          if constexpr (std::is_integral_v<T>)
            return false;
          else
            return std::isnan(convert<std::conditional_t<kIsHalf<T>, float, T>>(x));
        });
      default:
        return map_kernel<T, bool>(call, [](T x) {
          if constexpr (std::is_integral_v<T>)
            return false;
          else
            return std::isinf(convert<std::conditional_t<kIsHalf<T>, float, T>>(x));
        });
    }
  });
}

}  // namespace

KernelResult unary(const KernelCall& call) {
  SF_TRY(check_layout(call));
  if constexpr (keeps(Op::logical_not) || keeps(Op::isnan) || keeps(Op::isinf)) {
    if (call.out[0].dtype == DType::boolean &&
        (call.op == Op::logical_not || call.op == Op::isnan || call.op == Op::isinf))
      return predicate_kernel(call);
  }
  const DType dtype = call.in[0].dtype;
  if constexpr (keeps(DType::f64)) {
    if (dtype == DType::f64) {
      const UnaryParams params = unary_params(call.op, call.attrs);
      return map_kernel<double, double>(
          call, [op = call.op, params](double x) { return apply_unary<double>(op, x, params); });
    }
  }
  if (is_float(dtype)) {
    SF_ASSIGN(const UnaryF32 f, unary_f32(call.op, call.attrs));
    if constexpr (keeps(DType::f16)) {
      if (dtype == DType::f16) return half_kernel<Half>(call, f);
    }
    if constexpr (keeps(DType::bf16)) {
      if (dtype == DType::bf16) return half_kernel<BFloat16>(call, f);
    }
    return float_kernel(call, f);
  }
  return with_type(dtype, [&](auto tag) -> KernelResult {
    using T = decltype(tag);
    if constexpr (std::is_integral_v<T>)
      return integer_kernel<T>(call);
    else
      return unsupported(call.op, " of ", call.in[0].dtype);
  });
}

KernelResult to(const KernelCall& call) {
  SF_TRY(check_layout(call));
  return with_type(call.in[0].dtype, [&](auto from) -> KernelResult {
    using From = decltype(from);
    return with_type(call.out[0].dtype, [&](auto to) -> KernelResult {
      using To = decltype(to);
      return map_kernel<From, To>(call, [](From x) { return convert<To>(x); });
    });
  });
}

}  // namespace sixfold::cpu
