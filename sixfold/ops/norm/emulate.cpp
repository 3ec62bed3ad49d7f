// Softmax on the emulator. It is defined over reals, so fixed point is computed through a table of exponents
// of the distance from the largest: e[d] = exp(-beta * scale * d), as integers of 30 bits; sums and the
// quotient are integers.
#include "sixfold/emulator/kernel.h"
#include "sixfold/emulator/layout.h"
#include "sixfold/emulator/numbers.h"

namespace sixfold::emulator {
namespace {

struct FixedSoftmax {
  AroundAxis around;
  DataType in_type, out_type;
  const uint32_t* exponents;  // by distance; 0 beyond the last
  size_t exponent_count;
  double scale_out;  // 1 in steps of the output
  int64_t offset_out;
  Limits limits;

  template <typename T, typename U>
  void row(const T* x, U* y) const {
    T largest = x[0];
    for (int64_t i = 1; i < around.extent; ++i) largest = std::max(largest, x[i * around.after]);
    const auto exponent = [&](int64_t i) -> uint64_t {
      const auto d = static_cast<size_t>(int64_t{largest} - int64_t{x[i * around.after]});
      return d < exponent_count ? exponents[d] : 0;
    };
    uint64_t sum = 0;
    for (int64_t i = 0; i < around.extent; ++i) sum += exponent(i);
    for (int64_t i = 0; i < around.extent; ++i) {
      const double p = static_cast<double>(exponent(i)) / static_cast<double>(sum);
      const double q = std::floor(p * scale_out + 0.5) - static_cast<double>(offset_out);
      y[i * around.after] = static_cast<U>(std::clamp(static_cast<int64_t>(q), limits.min, limits.max));
    }
  }
  template <typename T, typename U>
  void run_as(const Run& run) const {
    const int64_t grain = std::max<int64_t>(1, 4096 / around.extent);
    run.pool.for_ranges(around.before * around.after, grain, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t at = r / around.after * around.extent * around.after + r % around.after;
        row(run.in<T>(0) + at, run.out<U>() + at);
      }
    });
  }
  void run(const Run& run) const {
    with_type(in_type, [&](auto t) {
      with_type(out_type, [&](auto u) {
        if constexpr (std::is_integral_v<decltype(t)> && std::is_integral_v<decltype(u)> && sizeof t <= 2 &&
                      sizeof u <= 2)
          run_as<decltype(t), decltype(u)>(run);
      });
    });
  }
};

struct FloatSoftmax {
  AroundAxis around;
  float beta;
  DataType dtype;

  template <typename T>
  void run_as(const Run& run) const {
    const int64_t grain = std::max<int64_t>(1, 4096 / around.extent);
    run.pool.for_ranges(around.before * around.after, grain, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t at = r / around.after * around.extent * around.after + r % around.after;
        const T* x = run.in<T>(0) + at;
        T* y = run.out<T>() + at;
        float largest = x[0];
        for (int64_t i = 1; i < around.extent; ++i) largest = std::max<float>(largest, x[i * around.after]);
        float sum = 0;
        for (int64_t i = 0; i < around.extent; ++i) sum += std::exp(beta * (x[i * around.after] - largest));
        for (int64_t i = 0; i < around.extent; ++i) {
          const float p = std::exp(beta * (x[i * around.after] - largest)) / sum;
          if constexpr (std::is_same_v<T, Half>)
            y[i * around.after] = Half(p);
          else
            y[i * around.after] = to_half(p);
        }
      }
    });
  }
  void run(const Run& run) const { dtype == DataType::f16 ? run_as<Half>(run) : run_as<float>(run); }
};

}  // namespace

Status check_softmax(const OpView& op, const DeviceModel&) {
  const TensorDef &x = op.in(0), &y = op.out();
  if (x.dims != y.dims) return unsupported("in[0] has dims ", x.dims, ", out[0] ", y.dims);
  if (x.rank() == 0) return unsupported("in[0] has rank 0");
  if (const uint32_t axis = op.u32("axis", static_cast<uint32_t>(x.rank() - 1)); axis >= x.rank())
    return unsupported("axis is ", axis, " of ", x.rank());
  if (x.is_float() != y.is_float())
    return unsupported("the emulator has no Softmax from one kind to another");
  return {};
}

Result<Step> prepare_softmax(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  const TensorDef &x = op.in(0), &y = op.out();
  const size_t axis = op.u32("axis", static_cast<uint32_t>(x.rank() - 1));
  const float beta = op.f32("beta", 1);
  const AroundAxis around(x.dims, axis);
  if (x.is_float()) return prepare.step(FloatSoftmax{around, beta, x.dtype});
  const double step = static_cast<double>(x.encoding().scale) * static_cast<double>(beta);
  const size_t count = qnn::size_of(x.dtype) == 1 ? 256 : 65536;
  SF_ASSIGN(const uint32_t* exponents, prepare.pack_values<uint32_t>(count, [&](std::span<uint32_t> out) {
    for (size_t d = 0; d < out.size(); ++d)
      out[d] = static_cast<uint32_t>(std::llround(std::exp(-step * static_cast<double>(d)) * 0x1p30));
  }));
  const ScaleOffset e = y.encoding();
  return prepare.step(FixedSoftmax{around, x.dtype, y.dtype, exponents, count,
                                   1.0 / static_cast<double>(e.scale), e.offset, limits_of(y.dtype)});
}

}  // namespace sixfold::emulator
