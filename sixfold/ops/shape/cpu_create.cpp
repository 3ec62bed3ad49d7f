// Tensors from nothing: full, arange, rand, randn.
#include <cmath>

#include "sixfold/cpu/copy.h"
#include "sixfold/cpu/kernel.h"
#include "sixfold/cpu/random.h"
#include "sixfold/ops/shape/number.h"

namespace sixfold::cpu {
namespace {

constexpr int64_t kGrain = 1 << 14;

}  // namespace

KernelResult full(const KernelCall& call) {
  const TensorDesc& y = call.out[0];
  const auto value = number_bytes(call.attrs.find("value"), y.dtype);
  SF_ASSIGN(const StridedCopy copy,
            StridedCopy::make(size_of(y.dtype), y.shape, Shape(y.rank(), 0), y.strides));
  return make_kernel([=](const Buffers& b) {
    copy.run(b.pool, value.data(), b.out[0]);
    return ok_status();
  });
}

KernelResult arange(const KernelCall& call) {
  const int64_t count = call.out[0].count();
  return with_type(call.out[0].dtype, [&](auto tag) -> KernelResult {
    using T = decltype(tag);
    // Products in the widest type of the kind, as torch: a float counter stops at 2^24.
    using Wide = std::conditional_t<std::is_integral_v<T>, int64_t, double>;
    const auto start = number_attr<Wide>(call.attrs.find("start"));
    const auto step = number_attr<Wide>(call.attrs.find("step"));
    return make_kernel([=](const Buffers& b) {
      T* out = b.output<T>();
      b.pool.for_ranges(count, kGrain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          if constexpr (std::is_integral_v<T>)  // wraps, as integers of a file may make it
            out[i] = static_cast<T>(static_cast<uint64_t>(start) +
                                    static_cast<uint64_t>(step) * static_cast<uint64_t>(i));
          else
            out[i] = convert_number<T>(start + step * static_cast<double>(i));
        }
      });
      return ok_status();
    });
  });
}

KernelResult random(const KernelCall& call) {
  const TensorDesc& y = call.out[0];
  const int64_t count = y.count();
  const auto seed = static_cast<uint64_t>(number_attr<int64_t>(call.attrs.find("seed")));
  const bool gaussian = call.op == Op::randn;
  return with_type(y.dtype, [&](auto tag) -> KernelResult {
    using T = decltype(tag);
    if constexpr (std::is_integral_v<T>) return unsupported("random integers");
    // No more digits than T has, or rounding could give 1.
    constexpr int kDigits = sizeof(T) == 8 ? 53 : sizeof(T) == 4 ? 24 : 8;
    return make_kernel([=](const Buffers& b) {
      T* out = b.output<T>();
      b.pool.for_ranges(count, kGrain / 4, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const uint64_t first = draw_bits(seed, 2 * static_cast<uint64_t>(i));
          out[i] = convert_number<T>(
              gaussian ? normal_of(first, draw_bits(seed, 2 * static_cast<uint64_t>(i) + 1))
                       : std::ldexp(static_cast<double>(first >> (64 - kDigits)), -kDigits));
        }
      });
      return ok_status();
    });
  });
}

}  // namespace sixfold::cpu
