// Tensors from nothing: full, arange, rand, randn.
#include <cmath>
#include <numbers>

#include "sixfold/cpu/copy.h"
#include "sixfold/cpu/kernel.h"
#include "sixfold/ops/shape/number.h"

namespace sixfold::cpu {
namespace {

constexpr int64_t kGrain = 1 << 14;

// A hash of a counter (the finalizer of splitmix64): any element can be drawn alone, so threads need no
// order.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
uint64_t draw(uint64_t seed, uint64_t i) {
  return mix(mix(seed + 0x9e3779b97f4a7c15u) + i * 0x9e3779b97f4a7c15u);
}

double uniform(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }
double normal(uint64_t bits, uint64_t more) {  // Box-Muller
  const double u = 1.0 - uniform(bits);        // (0, 1]: its logarithm is finite
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * uniform(more));
}

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
          const uint64_t first = draw(seed, 2 * static_cast<uint64_t>(i));
          out[i] = convert_number<T>(
              gaussian ? normal(first, draw(seed, 2 * static_cast<uint64_t>(i) + 1))
                       : std::ldexp(static_cast<double>(first >> (64 - kDigits)), -kDigits));
        }
      });
      return ok_status();
    });
  });
}

}  // namespace sixfold::cpu
