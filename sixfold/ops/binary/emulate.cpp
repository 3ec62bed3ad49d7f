// Elementwise ops of two operands on the emulator.
//
// Fixed point: both operands are brought to steps of the output by multipliers of one exponent, and the sum
// is rounded once, halves up. Products have two roundings, the larger and the smaller are those of converted
// numbers. Floats: computed in float, rounded to half.
#include "sixfold/cpu/fixed_rows.h"
#include "sixfold/cpu/half_rows.h"
#include "sixfold/emulator/elements.h"
#include "sixfold/emulator/kernel.h"
#include "sixfold/emulator/layout.h"
#include "sixfold/emulator/numbers.h"
#include "sixfold/ops/binary/emulate_constant.h"

namespace sixfold::emulator {
namespace {

enum class Binary : uint8_t { add, subtract, multiply, maximum, minimum };

struct Name {
  std::string_view type;
  Binary op;
};
constexpr Name kNames[] = {{"ElementWiseAdd", Binary::add},
                           {"ElementWiseSubtract", Binary::subtract},
                           {"ElementWiseMultiply", Binary::multiply},
                           {"ElementWiseMaximum", Binary::maximum},
                           {"ElementWiseMinimum", Binary::minimum}};
Binary binary_of(std::string_view type) {
  for (const Name& n : kNames)
    if (n.type == type) return n.op;
  return Binary::add;
}

// Sums of 8 bits. Multipliers are as large as 14 bits, less than 2^14 - 4, hold what a sum of two (or the
// larger of a difference) can be; the zero points' part, of numbers stored without a sign, is rounded to 256,
// halves down.
void set_narrow_sum(cpu::FixedPair& p, double first, double second, const TensorDef& y) {
  const bool subtracts = second < 0;
  int exponent = 0;
  const double most = subtracts ? std::max(first, -second) : first + second;
  std::frexp(most * (4096.0 / 4095), &exponent);
  p.shift = std::clamp(14 - exponent, 1, 15);
  const auto scale = [&p](double ratio) {
    return static_cast<int64_t>(std::clamp(std::floor(std::ldexp(ratio, p.shift) + 0.5), 0.0, 32768.0));
  };
  const int64_t a = scale(first), b = subtracts ? -scale(-second) : scale(second);
  const int64_t sign = limits_of(y.dtype).min;
  const int64_t zeros =
      (p.offset_a + sign) * a + (p.offset_b + sign) * b + (p.zero - sign) * (int64_t{1} << p.shift);
  const int64_t constant = ((zeros + 127) >> 8) * 256 - sign * (a + b) + sign * (int64_t{1} << p.shift);
  p.scale_a = static_cast<int32_t>(a);
  p.scale_b = static_cast<int32_t>(b);
  p.constant = static_cast<int32_t>(std::clamp<int64_t>(constant, -(1 << 30), 1 << 30));
  p.offset_a = p.offset_b = p.zero = 0;
}

// Products of 8 bits. The product is moved by a multiple of 256 to the middle of what it can be, so that it
// fits 16 bits, and scaled to 128 parts of a step, rounded; what it was moved by is rounded to such parts as
// well. All of it is one constant. The factor is b's scale times a's share of y's, in floats.
void set_narrow_product(cpu::FixedPair& p, const TensorDef& a, const TensorDef& b, const TensorDef& y) {
  const float share = a.encoding().scale / y.encoding().scale;
  const auto ratio = static_cast<double>(b.encoding().scale * share);
  int exponent = 0;
  std::frexp(ratio, &exponent);
  p.shift = std::clamp(15 - exponent, 1, 22);
  const auto scale =
      static_cast<int64_t>(std::clamp(std::nearbyint(std::ldexp(ratio, p.shift)), 0.0, 32768.0));
  p.scale_a = static_cast<int32_t>(scale);
  if (p.shift < 15) return;
  const int64_t sign = limits_of(y.dtype).min;
  const int64_t middles = (255 + 2 * (p.offset_a + sign)) * (255 + 2 * (p.offset_b + sign));
  const int64_t moved = ((middles + 256) >> 9) * 256 * scale;
  // Of the two roundings the second is the kernel's.
  const int64_t first = p.shift > 15 ? 1 << 14 : 0;
  p.constant = static_cast<int32_t>(first + ((moved + (1 << 14)) >> 15 << 15) - moved);
}

// Sums of 16 bits: the zero points' part is rounded to an even number, up.
void set_wide_sum(cpu::FixedPair& p) {
  const int64_t zeros =
      static_cast<int64_t>(p.offset_a) * p.scale_a + static_cast<int64_t>(p.offset_b) * p.scale_b;
  p.constant = zeros % 2 != 0;
}

// The larger or smaller of 16 bits: both as Convert brings numbers at odd places to the output.
void set_wide_choice(cpu::FixedPair& p, const TensorDef& a, const TensorDef& b, const TensorDef& y) {
  const Recode x = Recode::between(a, y), z = Recode::between(b, y);
  p.shift = 18;
  p.scale_a = x.ratio.multiplier;
  p.scale_b = z.ratio.multiplier;
  p.offset_a = static_cast<int32_t>(x.offset_in);
  p.offset_b = static_cast<int32_t>(z.offset_in);
  p.constant = (x.more_parts - 4) * 32768;
  p.more_b = (z.more_parts - x.more_parts) * 32768;
}

// Products of 16 bits. The product is moved to the middle of what it can be, so that it fits 32 bits, and
// scaled to 8 parts of a step, rounded; what it was moved by is rounded to such parts as well. The multiplier
// is 8 times the factor as a fraction of 31 bits; a factor of an eighth or more is halved until it is one,
// and results are doubled after they are rounded.
cpu::WideProduct wide_product_of(const TensorDef& a, const TensorDef& b, const TensorDef& y) {
  const float product = a.encoding().scale * b.encoding().scale;
  const auto factor = static_cast<double>(product / y.encoding().scale);
  const Limits limits = limits_of(y.dtype);
  int exponent = 0;
  std::frexp(factor, &exponent);
  cpu::WideProduct p{.stored = stored_as(y.dtype)};
  p.left = std::clamp(exponent + 3, 0, 16);
  p.scale = static_cast<int32_t>(std::min(std::nearbyint(std::ldexp(factor, 34 - p.left)), 2147483647.0));
  p.offset_a = a.encoding().offset;
  p.offset_b = b.encoding().offset;
  const int64_t middle_a = 65535 + 2 * (p.offset_a + limits.min),
                middle_b = 65535 + 2 * (p.offset_b + limits.min);
  int64_t moved = (1 - middle_a * middle_b) >> 1;
  // x * sigmoid(x) is one op of the library's, with the middle as a float.
  if (a.is_gate || b.is_gate) moved = static_cast<int64_t>(static_cast<float>(moved));
  p.moved = static_cast<int32_t>(moved);
  const int64_t back = 4 - ((moved * p.scale + (int64_t{1} << 30)) >> 31);
  p.back = static_cast<int32_t>(back);
  p.zero = -y.encoding().offset;
  p.min = static_cast<int32_t>(limits.min);
  p.max = static_cast<int32_t>(limits.max);
  const auto bound = [&](int64_t end) {
    return static_cast<int32_t>(std::clamp<int64_t>(end * 8 - back, INT32_MIN, INT32_MAX));
  };
  p.low = bound((limits.min - p.zero - 1) >> p.left);
  p.high = bound(((limits.max - p.zero) >> p.left) + 1);
  return p;
}

// The op with multipliers of one exponent and 15 bits.
cpu::FixedPair fixed_pair(Binary op, const TensorDef& a, const TensorDef& b, const TensorDef& y) {
  const double sa = a.encoding().scale, sb = b.encoding().scale, sy = y.encoding().scale;
  cpu::FixedPair p;
  p.op = op == Binary::multiply  ? cpu::PairOp::multiply
         : op == Binary::maximum ? cpu::PairOp::maximum
         : op == Binary::minimum ? cpu::PairOp::minimum
                                 : cpu::PairOp::add;
  const double first = op == Binary::multiply ? sa * sb / sy : sa / sy;
  const double second = op == Binary::multiply ? 0 : op == Binary::subtract ? -sb / sy : sb / sy;
  int exponent = 0;
  const bool narrow = qnn::size_of(y.dtype) == 1;
  // Multipliers of sums in tiles are at most 2^15 / 1.00004, of others below 2^15 when they are rounded.
  const double room = y.tiled_sum ? 1.00004 : op == Binary::add ? 65536.0 / 65535 : 1;
  std::frexp(std::max(first, std::abs(second)) * room, &exponent);
  p.shift = std::clamp(15 - exponent, 1, narrow ? 31 : 16);
  const auto scale = [&p](double ratio) {
    return static_cast<int32_t>(std::clamp(std::floor(std::ldexp(ratio, p.shift) + 0.5), -32768.0, 32768.0));
  };
  p.scale_a = scale(first);
  p.scale_b = scale(second);
  p.stored = stored_as(y.dtype);
  p.offset_a = a.encoding().offset;
  p.offset_b = b.encoding().offset;
  p.zero = -y.encoding().offset;
  const Limits limits = limits_of(y.dtype);
  p.min = static_cast<int32_t>(limits.min);
  p.max = static_cast<int32_t>(limits.max);
  if (!narrow && p.op == cpu::PairOp::add) set_wide_sum(p);
  if (!narrow && p.op != cpu::PairOp::add) set_wide_choice(p, a, b, y);
  if (narrow && p.op == cpu::PairOp::add) set_narrow_sum(p, first, second, y);
  if (narrow && p.op == cpu::PairOp::multiply) set_narrow_product(p, a, b, y);
  return p;
}

struct Fixed {
  cpu::BroadcastLoop<3> loop;
  cpu::FixedPair pair;
  int64_t size;

  void absorb(Clamp clamp) {
    pair.min = std::max(pair.min, clamp.min);
    pair.max = std::min(pair.max, clamp.max);
  }
  void run(const Run& run) const {
    loop.run(run.pool, cpu::kElementwiseGrain, [&](const auto& at, size_t n) {
      cpu::fixed_pair(pair, run.ins[0] + at[1] * size, loop.stride(1), run.ins[1] + at[2] * size,
                      loop.stride(2), run.outs[0] + at[0] * size, static_cast<int64_t>(n));
    });
  }
};

struct Product {
  cpu::BroadcastLoop<3> loop;
  cpu::WideProduct product;

  void absorb(Clamp clamp) {
    product.min = std::max(product.min, clamp.min);
    product.max = std::min(product.max, clamp.max);
  }
  void run(const Run& run) const {
    loop.run(run.pool, cpu::kElementwiseGrain, [&](const auto& at, size_t n) {
      cpu::wide_product(product, run.ins[0] + at[1] * 2, loop.stride(1), run.ins[1] + at[2] * 2,
                        loop.stride(2), run.outs[0] + at[0] * 2, static_cast<int64_t>(n));
    });
  }
};

struct Plain {
  cpu::BroadcastLoop<3> loop;
  Binary op;
  DataType dtype;
  bool ieee;  // a sum of floats as IEEE has it
  bool sums;  // an operand is sums of 32 bits, and the result what the matrix unit makes of them

  template <typename T>
  static T compute(Binary op, T a, T b) {
    // Integers wrap.
    using U = std::conditional_t<std::is_same_v<T, int32_t>, uint32_t, T>;
    const auto x = static_cast<U>(a), y = static_cast<U>(b);
    switch (op) {
      case Binary::add:
        return static_cast<T>(x + y);
      case Binary::subtract:
        return static_cast<T>(x - y);
      case Binary::multiply:
        return static_cast<T>(x * y);
      case Binary::maximum:
        return a > b ? a : b;
      case Binary::minimum:
        return a < b ? a : b;
    }
    return a;
  }
  // Numbers beyond 65536 are NaN here: the second operand's, made quiet, before the first's.
  static float ieee_sum(float a, float b) {
    for (const float x : {b, a})
      if (std::abs(x) > DeviceHalf::kInfinity) {
        DeviceHalf half(x);
        half.bits |= 0x200;
        return half;
      }
    if (std::abs(a) == DeviceHalf::kInfinity) return a == -b ? -1.5f * DeviceHalf::kInfinity : a;
    return std::abs(b) == DeviceHalf::kInfinity ? b : to_ieee_half(a + b);
  }
  template <typename T>
  void run_as(const Run& run) const {
    for_pairs(loop, run.pool, cpu::kElementwiseGrain, run.out<T>(), run.in<T>(0), run.in<T>(1),
              [&](T a, T b) {
                if constexpr (std::is_same_v<T, DeviceHalf>)
                  return DeviceHalf(ieee ? ieee_sum(a, b) : compute<float>(op, a, b));
                else
                  return compute<T>(op, a, b);
              });
  }
  void run_floats(const Run& run) const {
    constexpr cpu::HalfOp kOps[] = {cpu::HalfOp::add, cpu::HalfOp::subtract, cpu::HalfOp::multiply,
                                    cpu::HalfOp::maximum, cpu::HalfOp::minimum};
    const auto rounding = ieee || sums ? cpu::HalfRounding::ieee : cpu::HalfRounding::vector;
    loop.run(run.pool, cpu::kElementwiseGrain / 2, [&](const auto& at, size_t count) {
      const auto n = static_cast<int64_t>(count);
      const float *a = run.in<float>(0) + at[1], *b = run.in<float>(1) + at[2];
      float* y = run.out<float>() + at[0];
      const auto length = [n](int64_t step) { return step ? n : 1; };
      const int64_t step_a = loop.stride(1), step_b = loop.stride(2);
      constexpr float kEnd = DeviceHalf::kInfinity;
      if (ieee && !sums &&
          !(cpu::all_below(a, length(step_a), kEnd) && cpu::all_below(b, length(step_b), kEnd))) {
        for (int64_t i = 0; i < n; ++i) y[i] = ieee_sum(a[i * step_a], b[i * step_b]);
        return;
      }
      cpu::half_pair(kOps[static_cast<size_t>(op)], rounding, a, step_a, b, step_b, y, n);
    });
  }
  void run(const Run& run) const {
    if (dtype == DataType::f32) return run_floats(run);
    with_type(dtype, [&](auto t) {
      if constexpr (!std::is_same_v<decltype(t), float>) run_as<decltype(t)>(run);
    });
  }
};

}  // namespace

Status check_binary(const OpView& op, const DeviceModel&) { return check_broadcast(op, 2); }

Result<Step> prepare_binary(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  const TensorDef &a = op.in(0), &b = op.in(1), &y = op.out();
  SF_ASSIGN(std::optional<Step> own, prepare_with_constant(op, prepare));
  if (own) return *own;
  const cpu::TensorDesc da = describe(a), db = describe(b), dy = describe(y);
  const cpu::BroadcastLoop<3> loop({&dy, &da, &db});
  const Binary binary = binary_of(op.type);
  if (!is_narrow_fixed(y.dtype)) {
    // Of two whole tensors with 16 channels or more; other sums are the vector unit's.
    const bool ieee = binary == Binary::add && !a.is_constant() && !b.is_constant() && a.dims == b.dims &&
                      !a.dims.empty() && a.dims.back() >= 16;
    return prepare.step(Plain{loop, binary, y.dtype, ieee, a.keeps_sums || b.keeps_sums});
  }
  if (binary == Binary::multiply && qnn::size_of(y.dtype) == 2)
    return prepare.step(Product{loop, wide_product_of(a, b, y)});
  return prepare.step(Fixed{loop, fixed_pair(binary, a, b, y), static_cast<int64_t>(qnn::size_of(y.dtype))});
}

}  // namespace sixfold::emulator
