// Division, powers, remainders and slopes on the emulator: the exact function of the two reals, rounded once
// to the nearest, ties away from zero. Fixed point divides by reciprocals of its own (emulate_quotient.h; a
// floor of 16 bits does not), plain integers as integers. Slopes of 16 bits, and those of sums, have
// multipliers of their own.
#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <vector>

#include "sixfold/cpu/half_rows.h"
#include "sixfold/emulator/elements.h"
#include "sixfold/emulator/kernel.h"
#include "sixfold/emulator/layout.h"
#include "sixfold/ops/binary/emulate_quotient.h"

namespace sixfold::emulator {
namespace {

enum class Real : uint8_t { divide, power, floor_divide, mod, fmod, squared_difference, slope };

struct Name {
  std::string_view type;
  Real op;
};
constexpr Name kNames[] = {{"ElementWiseDivide", Real::divide},
                           {"ElementWisePower", Real::power},
                           {"ElementWiseFloorDiv", Real::floor_divide},
                           {"ElementWiseMod", Real::mod},
                           {"ElementWiseFmod", Real::fmod},
                           {"ElementWiseSquaredDifference", Real::squared_difference},
                           {"Prelu", Real::slope}};

double compute(Real op, double a, double b) {
  switch (op) {
    case Real::divide:
      return a / b;
    case Real::power:
      return std::pow(a, b);
    case Real::floor_divide:
      return std::floor(a / b);
    case Real::mod:
      return a - std::floor(a / b) * b;
    case Real::fmod:
      return std::fmod(a, b);
    case Real::squared_difference:
      return (a - b) * (a - b);
    case Real::slope:
      return a < 0 ? a * b : a;
  }
  return 0;
}

struct Binary {
  cpu::BroadcastLoop<3> loop;
  Real op;
  Codec a, b, y;
  Quotient quotient;
  bool by_one = false;  // a quotient of 8 bits whose denominator is one number that ops or clients give
  std::vector<uint8_t> table;  // of 8 bits: result p of row q, by the bytes of in[0] and in[1]; else empty

  double integers(double p, double q) const {  // what divides by 0 is 0
    if (q == 0 && op != Real::power && op != Real::squared_difference && op != Real::slope) return 0;
    return op == Real::divide ? std::trunc(p / q) : compute(op, p, q);
  }
  // The reals are floats, so that 200 * 0.01 is 2; what is no number is the largest.
  template <typename T, typename B>
  T power(T p, B q) const {
    const double result = std::pow(rounded(a.decode(p)), rounded(b.decode(q)));
    return std::isnan(result) ? static_cast<T>(y.limits.max) : y.encode<T>(result);
  }
  static double rounded(double x) { return static_cast<double>(static_cast<float>(x)); }

  template <typename T, typename B>
  T result(T p, B q) const {
    if constexpr (std::is_integral_v<T> && std::is_integral_v<B>)
      if (qnn::is_fixed(y.dtype)) {
        if (op == Real::power) return power(p, q);
        if (op == Real::floor_divide && sizeof(T) == 1) return static_cast<T>(quotient.whole(p, q));
        if (op == Real::divide) return static_cast<T>(by_one ? quotient.nearest(p, q) : quotient(p, q));
      }
    const double u = a.decode(p), v = b.decode(q);
    if constexpr (std::is_integral_v<T>)
      if (!qnn::is_fixed(y.dtype)) return y.encode<T>(integers(u, v));
    return y.encode<T>(compute(op, u, v));
  }
  template <typename T, typename B>
  void run_as(const Run& run) const {
    for_pairs(loop, run.pool, cpu::kElementwiseGrain / 4, run.out<T>(), run.in<T>(0), run.in<B>(1),
              [&](T p, B q) { return result(p, q); });
  }

  // The rows of the table that in[1] needs.
  void fill_table(const TensorDef& under) {
    std::array<bool, 256> needed;
    needed.fill(!under.is_constant());
    if (under.is_constant())
      for (const uint8_t q : under.values<uint8_t>()) needed[q] = true;
    const auto rows = static_cast<int64_t>(std::count(needed.begin(), needed.end(), true));
    if (loop.total() < 2 * 256 * rows) return;  // not worth its making
    table.resize(size_t{256} * 256);
    with_type(y.dtype, [&](auto t) {
      with_type(b.dtype, [&](auto s) {
        using T = decltype(t);
        using B = decltype(s);
        if constexpr (sizeof(T) == 1 && sizeof(B) == 1)
          for (size_t q = 0; q < 256; ++q)
            for (size_t p = 0; needed[q] && p < 256; ++p)
              table[q * 256 + p] = static_cast<uint8_t>(result(static_cast<T>(p), static_cast<B>(q)));
      });
    });
  }

  void run(const Run& run) const {
    if (!table.empty())
      return for_pairs(loop, run.pool, cpu::kElementwiseGrain, run.out<uint8_t>(), run.in<uint8_t>(0),
                       run.in<uint8_t>(1), [&](uint8_t p, uint8_t q) { return table[size_t{256} * q + p]; });
    with_type(y.dtype, [&](auto t) {
      using T = decltype(t);
      if (a.dtype == b.dtype) return run_as<T, T>(run);
      // Slopes and exponents may have their own width.
      if constexpr (std::is_integral_v<T> && sizeof(T) <= 2)
        with_type(b.dtype, [&](auto s) {
          using S = decltype(s);
          if constexpr (std::is_integral_v<S> && sizeof(S) <= 2) run_as<T, S>(run);
        });
    });
  }
};

// Slopes of fixed point of 8 or 16 bits, many at a time.
struct Slopes {
  cpu::BroadcastLoop<3> loop;
  cpu::SlopeRow row;
  int64_t size, size_slope;

  void run(const Run& run) const {
    loop.run(run.pool, cpu::kElementwiseGrain / 2, [&](const auto& at, size_t n) {
      cpu::slope_row(row, run.ins[0] + at[1] * size, loop.stride(1), run.ins[1] + at[2] * size_slope,
                     loop.stride(2), run.outs[0] + at[0] * size, static_cast<int64_t>(n));
    });
  }
};

// What numbers below zero are multiplied by, constants: floats as the device makes them.
std::vector<float> slopes_of(const TensorDef& by) {
  std::vector<float> slopes(static_cast<size_t>(by.count()));
  cpu::dequantize_row(stored_as(by.dtype), Codec::of(by).rows(), by.data, slopes.data(), by.count());
  return slopes;
}

// Slopes of 16 bits as the vector unit has them: multipliers of 15 bits, cut, for the larger of one and the
// slopes.
struct Kinks {
  Kinks(const cpu::BroadcastLoop<3>& at, const TensorDef& x, const TensorDef& by, const TensorDef& y)
      : loop(at) {
    const float above = x.encoding().scale / y.encoding().scale;
    std::vector<float> factors = slopes_of(by);
    float largest = above;
    for (float& f : factors) {
      f *= above;
      largest = std::max(largest, std::fabs(f));
    }
    int e = 0;
    std::frexp(largest, &e);
    row = {.offset = x.encoding().offset, .shift = 15 - std::clamp(e, 0, 14), .zero = -y.encoding().offset};
    const auto cut = [&](float f) {
      return static_cast<int32_t>(std::clamp(std::ldexp(f, row.shift), -32767.0f, 32767.0f));
    };
    row.above = cut(above);
    std::ranges::transform(factors, std::back_inserter(below), cut);
  }

  void run(const Run& run) const {
    loop.run(run.pool, cpu::kElementwiseGrain, [&](const auto& at, size_t n) {
      cpu::kink_row(row, run.in<uint16_t>(0) + at[1], below.data() + at[2], loop.stride(2),
                    run.out<uint16_t>() + at[0], static_cast<int64_t>(n));
    });
  }

  cpu::BroadcastLoop<3> loop;
  cpu::KinkRow row;
  std::vector<int32_t> below;
};

// Slopes of a convolution's sums (emulator/widen.h). With 8 bits sums are cut to 2^-12
// of how far results go on their side of the zero point, to 2 at the least (or where that is finer, as
// without slopes), and products are rounded; with 16 bits they are cut.
class SlopesOfSums {
 public:
  SlopesOfSums(const TensorDef& x, const TensorDef& by, const TensorDef& y)
      : channels_(x.dims.back()),
        pixels_(x.count() / std::max<int64_t>(1, channels_)),
        wide_(qnn::size_of(y.dtype) == 2),
        zero_(-y.encoding().offset) {
    const std::vector<float> slopes = slopes_of(by);
    const auto step = static_cast<double>(y.encoding().scale);
    for (size_t c = 0; c < static_cast<size_t>(channels_); ++c) {
      const double above = static_cast<double>(x.channel_encoding(c).scale) / step;
      add(0, above * static_cast<double>(slopes[slopes.size() == 1 ? 0 : c]), zero_);
      add(1, above, 255 - zero_);
    }
  }

  void run(const Run& run) const {
    const auto at = [this](size_t side) { return up_[side].data(); };
    const auto of = [this](size_t side) { return factor_[side].data(); };
    const cpu::SumSlopeRow row{{at(0), at(1)}, {of(0), of(1)}, wide_ ? 0 : 0.5, static_cast<double>(zero_)};
    const auto stored = wide_ ? cpu::Stored::u16 : cpu::Stored::u8;
    const int64_t size = wide_ ? 2 : 1;
    for_pixels(run, pixels_, channels_, [&](int64_t i) {
      cpu::slope_sums(row, run.in<int32_t>(0) + i, stored, run.outs[0] + i * size, channels_);
    });
  }

 private:
  void add(size_t side, double exact, int32_t reach) {
    const auto factor = static_cast<double>(static_cast<float>(exact));
    int e = 0, part = 0;
    const double f = std::frexp(factor, &e);
    if (wide_) {
      const double multiplier = std::trunc(std::ldexp(f, 22));
      up_[side].push_back(std::ldexp(1.0, 7 + e));
      factor_[side].push_back(std::ldexp(multiplier, -30));
      return;
    }
    std::frexp(factor / std::max(reach, 1), &part);
    const int shift = std::min(-e - 3, std::max(1, -12 - part));
    up_[side].push_back(std::ldexp(1.0, -shift));
    factor_[side].push_back(std::ldexp(std::floor(std::ldexp(factor, shift + 15) + 0.5), -16));
  }

  int64_t channels_, pixels_;
  bool wide_;
  int32_t zero_;
  std::vector<double> up_[2], factor_[2];  // of sums below zero, and of others
};

// Of halves. Floats are multiplied by a reciprocal, which is a half: 65504 at the most.
struct Halves {
  cpu::BroadcastLoop<3> loop;
  cpu::HalfOp op;

  void run(const Run& run) const {
    loop.run(run.pool, cpu::kElementwiseGrain / 2, [&](const auto& at, size_t n) {
      cpu::half_pair(op, cpu::HalfRounding::vector, run.in<float>(0) + at[1], loop.stride(1),
                     run.in<float>(1) + at[2], loop.stride(2), run.out<float>() + at[0],
                     static_cast<int64_t>(n));
    });
  }
};

}  // namespace

Status check_real_binary(const OpView& op, const DeviceModel&) {
  SF_TRY(check_broadcast(op, 2));
  const DataType a = op.in(0).dtype, b = op.in(1).dtype, y = op.out().dtype;
  const auto narrow = [](DataType t) { return qnn::is_fixed(t) && qnn::size_of(t) <= 2; };
  if (a != y || (a != b && !(narrow(a) && narrow(b))))
    return unsupported("in[0] is ", qnn::to_text(a), ", in[1] ", qnn::to_text(b), ", out[0] ",
                       qnn::to_text(y));
  return {};
}

Result<Step> prepare_real_binary(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  const cpu::TensorDesc a = describe(op.in(0)), b = describe(op.in(1)), y = describe(op.out());
  const cpu::BroadcastLoop<3> loop({&y, &a, &b});
  Real function = Real::divide;
  for (const Name& n : kNames)
    if (n.type == op.type) function = n.op;
  const TensorDef& under = op.in(1);
  const Codec from = Codec::of(op.in(0)), by = Codec::of(under), to = Codec::of(op.out());
  if (op.in(0).dtype == DataType::sfixed32 && function == Real::slope)
    return prepare.step(SlopesOfSums(op.in(0), under, op.out()));
  if (function == Real::slope && from.dtype == DataType::ufixed16 && to.dtype == DataType::ufixed16 &&
      under.is_constant() && under.data && !under.is_per_channel())
    return prepare.step(Kinks(loop, op.in(0), under, op.out()));
  const bool narrow = qnn::size_of(to.dtype) == 1 && qnn::size_of(by.dtype) == 1;
  if (to.dtype == DataType::f32 && (function == Real::slope || function == Real::divide))
    return prepare.step(Halves{loop, function == Real::slope ? cpu::HalfOp::slope : cpu::HalfOp::divide});
  if (function == Real::slope && is_narrow_fixed(to.dtype) && !narrow)
    return prepare.step(Slopes{loop,
                               {stored_as(to.dtype), stored_as(by.dtype), from.rows(), by.rows(), to.rows()},
                               static_cast<int64_t>(qnn::size_of(to.dtype)),
                               static_cast<int64_t>(qnn::size_of(by.dtype))});
  Binary step{.loop = loop, .op = function, .a = from, .b = by, .y = to, .quotient = Quotient(from, by, to)};
  step.by_one = function == Real::divide && qnn::size_of(under.dtype) == 1 && under.count() == 1 &&
                !under.is_constant();
  if (narrow && qnn::is_fixed(to.dtype)) step.fill_table(under);
  return prepare.step(std::move(step));
}

}  // namespace sixfold::emulator
