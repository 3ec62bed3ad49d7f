#include <atomic>

#include "sixfold/cpu/scalar_binary.h"
#include "sixfold/ops/binary/binary.h"

namespace sixfold::cpu {
namespace {

template <Arithmetic op, typename T>
std::unique_ptr<Kernel> plain(const KernelCall& call, const BinaryLoop& loop) {
  return zip_kernel<T, T>(call, loop, [](T a, T b) { return apply_binary<op, T>(a, b); });
}

// A zero divisor traps the processor; torch raises an error for it, and so does the kernel, before any
// arithmetic.
template <Arithmetic op, typename T>
std::unique_ptr<Kernel> checked(const KernelCall& call, const BinaryLoop& loop) {
  const int64_t divisors = call.out[0].count() == 0 ? 0 : call.in[1].count();
  std::unique_ptr<Kernel> divide = plain<op, T>(call, loop);
  const bool in_place = divide->in_place();
  return make_kernel(
      [divisors, divide = std::move(divide)](const Buffers& buffers) -> Status {
        const T* b = buffers.input<T>(1);
        std::atomic<bool> zero = false;
        buffers.pool.for_ranges(divisors, kElementwiseGrain, [&](int64_t begin, int64_t end) {
          if (std::find(b + begin, b + end, T(0)) != b + end) zero.store(true, std::memory_order_relaxed);
        });
        if (zero) return invalid_argument("integer division by zero");
        return divide->run(buffers);
      },
      {.in_place = in_place});
}

template <typename T>
KernelResult integer_typed(const KernelCall& call, const BinaryLoop& loop) {
  switch (const Arithmetic op = arithmetic_of(call.op, call.attrs); op) {
    case Arithmetic::add:
      return plain<Arithmetic::add, T>(call, loop);
    case Arithmetic::mul:
      return plain<Arithmetic::mul, T>(call, loop);
    case Arithmetic::minimum:
      return plain<Arithmetic::minimum, T>(call, loop);
    case Arithmetic::maximum:
      return plain<Arithmetic::maximum, T>(call, loop);
    case Arithmetic::bitwise_and:
      return plain<Arithmetic::bitwise_and, T>(call, loop);
    case Arithmetic::bitwise_or:
      return plain<Arithmetic::bitwise_or, T>(call, loop);
    case Arithmetic::bitwise_xor:
      return plain<Arithmetic::bitwise_xor, T>(call, loop);
    default:
      if constexpr (!std::is_same_v<T, bool>) {
        switch (op) {
          case Arithmetic::sub:
            return plain<Arithmetic::sub, T>(call, loop);
          case Arithmetic::pow:
            return plain<Arithmetic::pow, T>(call, loop);
          case Arithmetic::shift_left:
            return plain<Arithmetic::shift_left, T>(call, loop);
          case Arithmetic::shift_right:
            return plain<Arithmetic::shift_right, T>(call, loop);
          case Arithmetic::div_floor:
            return checked<Arithmetic::div_floor, T>(call, loop);
          case Arithmetic::div_trunc:
            return checked<Arithmetic::div_trunc, T>(call, loop);
          case Arithmetic::fmod:
            return checked<Arithmetic::fmod, T>(call, loop);
          case Arithmetic::remainder:
            return checked<Arithmetic::remainder, T>(call, loop);
          default:
            break;
        }
      }
  }
  return unsupported(call.op, " of ", call.in[0].dtype);
}

}  // namespace

KernelResult integer_kernel(const KernelCall& call, const BinaryLoop& loop) {
  return with_type(call.in[0].dtype, [&](auto tag) -> KernelResult {
    using T = decltype(tag);
    if constexpr (std::is_integral_v<T>)
      return integer_typed<T>(call, loop);
    else
      return unsupported(call.op, " of ", call.in[0].dtype);
  });
}

}  // namespace sixfold::cpu
