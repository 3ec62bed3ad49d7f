// Softmax on the emulator. It is defined over reals, so fixed point is computed through a table of exponents
// of the distance from the largest: e[d] = exp(-beta * scale * d), as integers of 30 bits; sums and the
// quotient are integers. With 8 bits and rows of more than 16, or an output's scale below 1/512, all is the
// library's: e[d] = 2^(-k * d), k of 8 bits, by parabolas; the output's scale is cut to a multiple of 2^-16.
// With 16 bits k is cut to a multiple of 2^-22, and powers of two are nearly the same parabolas.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "sixfold/emulator/elements.h"
#include "sixfold/emulator/kernel.h"
#include "sixfold/emulator/layout.h"

namespace sixfold::emulator {
namespace {

// 2^(-t / 65536) in 15 bits as the device's vector unit has it: what a whole octave lacks goes through one of
// four parabolas, each step cut, and is shifted down by the octaves. The last is not the same with 8 bits.
uint32_t power_of_two(uint64_t t, bool bytes) {
  struct Parabola {
    uint32_t square, twice_slope, twice_constant;
  };
  constexpr Parabola kParts[5] = {{4300, 22652, 32769},
                                  {5119, 21816, 32876},
                                  {6087, 19857, 33371},
                                  {7227, 16401, 34681},
                                  {7230, 16404, 34675}};
  if (t >> 16 > 15) return 0;
  const auto u = static_cast<uint32_t>(~t & 0xFFFF);
  const uint32_t part = u >> 14;
  const Parabola& p = kParts[part == 3 && bytes ? 4 : part];
  const uint32_t slope = (p.square * u + (p.twice_slope << 15)) >> 16;
  const uint32_t whole = (slope * u + (p.twice_constant << 15)) >> 16;
  return std::min<uint32_t>(whole, 32767) >> (t >> 16);
}
// 2^-t of rows of two, a cubic polynomial that agrees at both ends of an octave.
double power_in_pairs(double t) {
  const double octaves = std::ceil(t), g = octaves - t;
  return std::ldexp(((2345 * g + 7796) * g + 22627) * g + 32768, -15 - static_cast<int>(octaves));
}

struct FixedSoftmax {
  AroundAxis around;
  cpu::SoftmaxRow row;
  int64_t size_in, size_out;
  // Rows of two bytes: results are in steps of 1/255, the first is what the second leaves of 255, and these
  // are the output's bytes for them. Else null.
  const uint8_t* pairs = nullptr;

  void compute(const std::byte* x, std::byte* y, uint32_t* exponents) const {
    cpu::softmax_row(row, x, y, around.extent, exponents);
    if (!pairs) return;
    auto* bytes = reinterpret_cast<uint8_t*>(y);
    bytes[0] = pairs[255 - bytes[1]];
    bytes[1] = pairs[bytes[1]];
  }

  // Rows that lie apart are brought together.
  template <typename T>
  static void copy(const std::byte* from, int64_t from_step, std::byte* to, int64_t to_step, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      reinterpret_cast<T*>(to)[i * to_step] = reinterpret_cast<const T*>(from)[i * from_step];
  }
  static void copy(int64_t size, const std::byte* from, int64_t from_step, std::byte* to, int64_t to_step,
                   int64_t n) {
    size == 1 ? copy<uint8_t>(from, from_step, to, to_step, n)
              : copy<uint16_t>(from, from_step, to, to_step, n);
  }
  void run(const Run& run) const {
    const int64_t n = around.extent, grain = std::max<int64_t>(1, 4096 / n);
    run.pool.for_ranges(around.before * around.after, grain, [&](int64_t begin, int64_t end) {
      std::vector<uint32_t> exponents(static_cast<size_t>(n));
      std::vector<std::byte> room(around.after == 1 ? 0 : static_cast<size_t>(n * 4));
      for (int64_t r = begin; r < end; ++r) {
        const int64_t at = r / around.after * n * around.after + r % around.after;
        const std::byte* x = run.ins[0] + at * size_in;
        std::byte* y = run.outs[0] + at * size_out;
        if (around.after == 1) {
          compute(x, y, exponents.data());
          continue;
        }
        copy(size_in, x, around.after, room.data(), 1, n);
        compute(room.data(), room.data() + 2 * n, exponents.data());
        copy(size_out, room.data() + 2 * n, 1, y, around.after, n);
      }
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
          if constexpr (std::is_same_v<T, DeviceHalf>)
            y[i * around.after] = DeviceHalf(p);
          else
            y[i * around.after] = to_half(p);
        }
      }
    });
  }
  void run(const Run& run) const { dtype == DataType::f16 ? run_as<DeviceHalf>(run) : run_as<float>(run); }
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
  cpu::RealCode code = Codec::of(y).rows();
  const bool narrow = count == 256 && qnn::size_of(y.dtype) == 1 && around.extent > 2 &&
                      (around.extent > 16 || code.scale < 1.0 / 512);
  const double octaves = step * std::numbers::log2e;
  int exponent = 0;
  std::frexp(octaves, &exponent);
  const int fraction = std::min(8 - exponent, 14);
  const double cut_octaves = std::ldexp(std::floor(std::ldexp(octaves, fraction)), -fraction);
  // From 16 bits: a step of less than 2^-18 of an octave has an exponent too much, so that all but the
  // largest count twice.
  const bool too_fine = count > 256 && octaves < 0x1p-18;
  const bool wide = count > 256 && qnn::size_of(y.dtype) == 2 && !too_fine;
  const bool wide_pairs = wide && around.extent == 2, cut = wide && !wide_pairs;
  const auto factor = static_cast<uint64_t>(std::min(std::ldexp(octaves, 22), 0x1p30));
  SF_ASSIGN(const uint32_t* exponents, prepare.pack_values<uint32_t>(count, [&](std::span<uint32_t> out) {
    for (size_t d = 0; d < out.size(); ++d) {
      const auto distance = static_cast<double>(d);
      if (cut)
        out[d] = power_of_two(d * factor >> 6, false);
      else if (narrow)
        out[d] = power_of_two(static_cast<uint64_t>(std::min(cut_octaves * distance * 65536, 0x1p30)), true);
      else
        out[d] = static_cast<uint32_t>(
            std::floor((wide_pairs ? power_in_pairs(octaves * distance)
                                   : (d > 0 && too_fine ? 2 : 1) * std::exp(-step * distance)) *
                           0x1p30 +
                       0.5));
    }
  }));
  // Nothing is left of one below 2^-16, and all results are the largest.
  if (narrow) code.scale = std::max(std::floor(code.scale * 65536) / 65536, 0x1p-60);
  using Reciprocal = cpu::SoftmaxRow::Reciprocal;
  const Reciprocal reciprocal = narrow && code.scale >= 0x1p-16 ? Reciprocal::bytes
                                : cut                           ? Reciprocal::words
                                                                : Reciprocal::real;
  const auto bytes = static_cast<int64_t>(qnn::size_of(x.dtype));
  FixedSoftmax state{around,
                     {stored_as(x.dtype), stored_as(y.dtype), exponents, code, reciprocal},
                     bytes,
                     static_cast<int64_t>(qnn::size_of(y.dtype))};
  if (around.extent == 2 && bytes == 1 && state.size_out == 1) {
    // On a grid of 1/256, which is brought to the output's.
    state.row.out = cpu::Stored::u8;
    state.row.code = {1.0 / 255, 0, 0, 255};
    SF_ASSIGN(state.pairs, prepare.pack_values<uint8_t>(256, [&](std::span<uint8_t> out) {
      const Codec to = Codec::of(y);
      const Multiplier ratio = byte_multiplier(0x1p-8 / to.scale);
      for (size_t q = 0; q < out.size(); ++q)
        out[q] = static_cast<uint8_t>(
            std::clamp(ratio(static_cast<int64_t>(q)) - to.offset, to.limits.min, to.limits.max));
    }));
  }
  return prepare.step(std::move(state));
}

}  // namespace sixfold::emulator
