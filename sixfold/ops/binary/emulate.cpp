// Elementwise ops of two operands on the emulator.
//
// Fixed point: both operands are brought to steps of the output by integer multipliers of one shift, and the
// sum is rounded once, halves up. A product is scaled once. Floats: computed in float, rounded to half.
#include "sixfold/emulator/kernel.h"
#include "sixfold/emulator/layout.h"
#include "sixfold/emulator/numbers.h"

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

// Two ratios as integers of one shift.
struct Scales {
  int64_t a = 0, b = 0;
  int shift = 1;
  static Scales of(double ratio_a, double ratio_b) {
    int exponent = 0;
    std::frexp(std::max(ratio_a, ratio_b), &exponent);
    const int shift = std::clamp(30 - exponent, 1, 46);
    const double unit = std::ldexp(1.0, shift);
    return {std::llround(ratio_a * unit), std::llround(ratio_b * unit), shift};
  }
};

struct Fixed {
  cpu::BroadcastLoop<3> loop;
  Binary op;
  DataType dtype;
  int64_t offset_a, offset_b, offset_out;
  Scales scales;
  Limits limits;

  int64_t compute(int64_t a, int64_t b) const {
    a += offset_a;
    b += offset_b;
    const int64_t half = int64_t{1} << (scales.shift - 1);
    switch (op) {
      case Binary::add:
        return (a * scales.a + b * scales.b + half) >> scales.shift;
      case Binary::subtract:
        return (a * scales.a - b * scales.b + half) >> scales.shift;
      case Binary::multiply:
        return static_cast<int64_t>((static_cast<__int128>(a * b) * scales.a + half) >> scales.shift);
      case Binary::maximum:
        return (std::max(a * scales.a, b * scales.b) + half) >> scales.shift;
      case Binary::minimum:
        return (std::min(a * scales.a, b * scales.b) + half) >> scales.shift;
    }
    return 0;
  }
  template <typename T>
  void run_as(const Run& run) const {
    for_pairs(loop, run.pool, cpu::kElementwiseGrain, run.out<T>(), run.in<T>(0), run.in<T>(1),
              [&](T a, T b) {
                return static_cast<T>(std::clamp(compute(a, b) - offset_out, limits.min, limits.max));
              });
  }
  void run(const Run& run) const {
    with_type(dtype, [&](auto t) {
      if constexpr (std::is_integral_v<decltype(t)>) run_as<decltype(t)>(run);
    });
  }
};

struct Plain {
  cpu::BroadcastLoop<3> loop;
  Binary op;
  DataType dtype;

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
  template <typename T>
  void run_as(const Run& run) const {
    for_pairs(loop, run.pool, cpu::kElementwiseGrain, run.out<T>(), run.in<T>(0), run.in<T>(1),
              [&](T a, T b) {
                if constexpr (std::is_same_v<T, Half>)
                  return Half(compute<float>(op, a, b));
                else if constexpr (std::is_same_v<T, float>)
                  return to_half(compute<T>(op, a, b));
                else
                  return compute<T>(op, a, b);
              });
  }
  void run(const Run& run) const {
    with_type(dtype, [&](auto t) { run_as<decltype(t)>(run); });
  }
};

}  // namespace

Status check_binary(const OpView& op, const DeviceModel&) { return check_broadcast(op, 2); }

Result<Step> prepare_binary(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  const TensorDef &a = op.in(0), &b = op.in(1), &y = op.out();
  const cpu::TensorDesc da = describe(a), db = describe(b), dy = describe(y);
  const cpu::BroadcastLoop<3> loop({&dy, &da, &db});
  const Binary binary = binary_of(op.type);
  if (!qnn::is_fixed(y.dtype)) return prepare.step(Plain{loop, binary, y.dtype});
  const ScaleOffset ea = a.encoding(), eb = b.encoding(), ey = y.encoding();
  const double sa = ea.scale, sb = eb.scale, sy = ey.scale;
  const Scales scales =
      binary == Binary::multiply ? Scales::of(sa * sb / sy, 0) : Scales::of(sa / sy, sb / sy);
  return prepare.step(
      Fixed{loop, binary, y.dtype, ea.offset, eb.offset, ey.offset, scales, limits_of(y.dtype)});
}

}  // namespace sixfold::emulator
