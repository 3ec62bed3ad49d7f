// quantize: q = clamp(round(x * (1 / scale)) + zero_point, quant_min, quant_max), halves rounded to even.
// dequantize: x = (q - zero_point) * scale.
//
// As torch's decomposed ops compute them: in float, with the reciprocal rounded to float; in double where a
// scale tensor with axes is f64, because there torch's promotion makes the product double.
#include <algorithm>
#include <cmath>

#include "sixfold/cpu/kernel.h"

namespace sixfold::cpu {
namespace {

constexpr int64_t kGrain = 1 << 14;

// Which scale goes with which element. Trailing axes that have one scale are merged into the axis before
// them, so that rows are as long as possible and every row is a sequence of blocks.
struct Blocks {
  Shape shape, block, strides;  // leading axes: extent, block and stride among the scales
  int64_t width = 1;            // of a row
  int64_t run = 1;              // elements of a block in a row
  int64_t scales = 1, count = 1;

  Blocks(const Shape& x, const Shape& blocks) : shape(x), block(blocks) {
    count = numel(x);
    if (shape.empty()) shape = block = {1};
    while (shape.size() > 1 && block.back() == shape.back()) {
      const int64_t last = shape.back();
      shape.pop_back();
      block.pop_back();
      shape.back() *= last;
      block.back() *= last;
    }
    strides.resize(shape.size());
    for (size_t i = shape.size(); i-- > 0;) {
      strides[i] = scales;
      scales *= block[i] == shape[i] ? 1 : shape[i] / block[i];
    }
    width = shape.back();
    run = std::max<int64_t>(block.back(), 1);
  }
  int64_t first_scale(int64_t row) const {
    int64_t out = 0;
    for (size_t d = shape.size() - 1; d-- > 0;) {
      if (block[d] != shape[d]) out += row % shape[d] / block[d] * strides[d];
      row /= shape[d];
    }
    return out;
  }
  // f(first element, how many, first scale, scale step): elements of one scale (step 0), or one scale each
  // (step 1).
  template <typename F>
  void for_runs(Pool& pool, const F& f) const {
    pool.for_ranges(count, kGrain, [&](int64_t begin, int64_t end) {
      while (begin < end) {
        const int64_t row = begin / width, at = begin % width, first = first_scale(row);
        const int64_t n = std::min(end - begin, run == 1 ? width - at : run - at % run);
        f(begin, n, first + at / run, run == 1 && width > 1 ? 1 : 0);
        begin += n;
      }
    });
  }
};

template <typename C>
void read_numbers(DType dtype, const void* data, int64_t n, C* out) {
  with_type(dtype, [&](auto tag) {
    const auto* values = static_cast<const decltype(tag)*>(data);
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<C>(values[i]);
  });
}

// Scales as multipliers, and zero points, in scratch.
template <typename C>
struct Parameters {
  DType scale_type, zero_type;
  int64_t count;
  bool reciprocal;

  size_t scratch_bytes() const { return static_cast<size_t>(count) * 2 * sizeof(C); }
  const C* multipliers(const Buffers& b) const { return reinterpret_cast<const C*>(b.scratch); }
  const C* zeros(const Buffers& b) const { return multipliers(b) + count; }
  void read(const Buffers& b) const {
    auto* scale = reinterpret_cast<C*>(b.scratch);
    auto* zero = scale + count;
    if (scale_type == DType::f64) {  // the reciprocal of a double, then rounded
      const auto* values = b.input<double>(1);
      for (int64_t i = 0; i < count; ++i) scale[i] = static_cast<C>(reciprocal ? 1.0 / values[i] : values[i]);
    } else {
      read_numbers<C>(scale_type, b.in[1], count, scale);
      if (reciprocal)
        for (int64_t i = 0; i < count; ++i) scale[i] = C(1) / scale[i];
    }
    if (zero_type == DType::none)
      std::fill_n(zero, count, C(0));
    else
      read_numbers<C>(zero_type, b.in[2], count, zero);
  }
};

// Rounds to the nearest integer, ties to even, for |x| < 2^22: adding 1.5 * 2^23 leaves no room for a
// fraction. Unlike nearbyint it becomes vector code everywhere.
inline float round_small(float x) { return (x + 12582912.0f) - 12582912.0f; }
inline double round_small(double x) { return (x + 6755399441055744.0) - 6755399441055744.0; }

template <typename C, typename X, typename Q>
KernelResult make_quantize(const KernelCall& call, const Blocks& blocks) {
  const Parameters<C> parameters{call.in[1].dtype, call.input(2).dtype, blocks.scales, /*reciprocal=*/true};
  const auto low = static_cast<C>(call.attrs.integer("quant_min")),
             high = static_cast<C>(call.attrs.integer("quant_max"));
  const bool small = low > C(-1 << 20) && high < C(1 << 20);
  return make_kernel(
      [=](const Buffers& b) {
        parameters.read(b);
        const X* x = b.input<X>(0);
        Q* out = b.output<Q>();
        blocks.for_runs(b.pool, [&](int64_t first, int64_t n, int64_t scale, int64_t step) {
          const C* multiplier = parameters.multipliers(b) + scale;
          const C* zero = parameters.zeros(b) + scale;
          const X* from = x + first;
          Q* to = out + first;
          // Limits are integers, so clamping may come before rounding; what remains is small enough to round
          // fast.
          const auto one = [&](int64_t i, C m, C z) {
            C v = static_cast<C>(from[i]) * m;
            v = v > low - z ? v : low - z;
            v = v < high - z ? v : high - z;
            return static_cast<Q>(static_cast<int32_t>(round_small(v) + z));
          };
          const auto one_wide = [&](int64_t i, C m, C z) {
            const C v = std::nearbyint(static_cast<C>(from[i]) * m) + z;
            // Clamped as a double: the limits of 32 bits are no floats.
            const double d =
                std::clamp(static_cast<double>(v), static_cast<double>(low), static_cast<double>(high));
            return static_cast<Q>(std::clamp(std::isnan(v) ? 0.0 : d, -2147483648.0, 2147483647.0));
          };
          const bool fits = small && std::abs(*zero) < C(1 << 20);
          if (step == 0 && fits) {
            const C m = *multiplier, z = *zero;
            for (int64_t i = 0; i < n; ++i) to[i] = one(i, m, z);
          } else if (small && step == 1 &&
                     std::all_of(zero, zero + n, [](C z) { return std::abs(z) < C(1 << 20); })) {
            for (int64_t i = 0; i < n; ++i) to[i] = one(i, multiplier[i], zero[i]);
          } else {
            for (int64_t i = 0; i < n; ++i) to[i] = one_wide(i, multiplier[i * step], zero[i * step]);
          }
        });
        return ok_status();
      },
      {.scratch_bytes = parameters.scratch_bytes()});
}

template <typename C, typename Q, typename X>
KernelResult make_dequantize(const KernelCall& call, const Blocks& blocks) {
  const Parameters<C> parameters{call.in[1].dtype, call.input(2).dtype, blocks.scales, /*reciprocal=*/false};
  return make_kernel(
      [=](const Buffers& b) {
        parameters.read(b);
        const Q* q = b.input<Q>(0);
        X* out = b.output<X>();
        blocks.for_runs(b.pool, [&](int64_t first, int64_t n, int64_t scale, int64_t step) {
          const C* multiplier = parameters.multipliers(b) + scale;
          const C* zero = parameters.zeros(b) + scale;
          const Q* from = q + first;
          X* to = out + first;
          const auto one = [&](int64_t i, C m, C z) {
            return X(static_cast<float>((static_cast<C>(from[i]) - z) * m));
          };
          if (step == 0) {
            const C m = *multiplier, z = *zero;
            for (int64_t i = 0; i < n; ++i) to[i] = one(i, m, z);
          } else {
            for (int64_t i = 0; i < n; ++i) to[i] = one(i, multiplier[i], zero[i]);
          }
        });
        return ok_status();
      },
      {.scratch_bytes = parameters.scratch_bytes()});
}

template <typename F>
KernelResult with_integer(DType dtype, const F& f) {
  switch (dtype) {
    case DType::i8:
      return f(int8_t{});
    case DType::u8:
      return f(uint8_t{});
    case DType::i16:
      return f(int16_t{});
    case DType::u16:
      return f(uint16_t{});
    case DType::i32:
      return f(int32_t{});
    default:
      return unsupported("quantized values of ", dtype);
  }
}

bool in_double(const TensorDesc& scale) { return scale.dtype == DType::f64 && scale.rank() > 0; }

}  // namespace

KernelResult quantize(const KernelCall& call) {
  if (call.in[0].dtype != DType::f32) return unsupported("quantizing ", call.in[0].dtype);  // planned in f32
  const Blocks blocks(call.in[0].shape, call.attrs.ints("block"));
  return with_integer(call.out[0].dtype, [&](auto tag) {
    using Q = decltype(tag);
    return in_double(call.in[1]) ? make_quantize<double, float, Q>(call, blocks)
                                 : make_quantize<float, float, Q>(call, blocks);
  });
}

KernelResult dequantize(const KernelCall& call) {
  if (call.out[0].dtype != DType::f32) return unsupported("dequantizing to ", call.out[0].dtype);
  const Blocks blocks(call.in[0].shape, call.attrs.ints("block"));
  return with_integer(call.in[0].dtype, [&](auto tag) {
    using Q = decltype(tag);
    return in_double(call.in[1]) ? make_dequantize<double, Q, float>(call, blocks)
                                 : make_dequantize<float, Q, float>(call, blocks);
  });
}

}  // namespace sixfold::cpu
