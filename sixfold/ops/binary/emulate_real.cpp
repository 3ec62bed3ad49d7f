// Division, powers, remainders and slopes on the emulator: the exact function of the two reals, rounded once
// to the nearest, ties away from zero. Fixed point divides by reciprocals of its own (emulate_quotient.h; a
// floor of 16 bits does not), plain integers as integers.
#include <cmath>

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
  bool by_one = false;  // a quotient of 8 bits whose denominator is one number that ops or clients give

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
  // Floats are multiplied by a reciprocal, which is a half: 65504 at the most.
  static double reciprocal(double x) {
    constexpr double kMost = 65504;
    return std::abs(x) * kMost < 1 ? std::copysign(kMost, x) : 1 / x;
  }
  static double rounded(double x) { return static_cast<double>(static_cast<float>(x)); }
  template <typename T, typename B>
  void run_as(const Run& run) const {
    if constexpr (std::is_integral_v<T> && std::is_integral_v<B>) {
      const bool whole = op == Real::floor_divide && sizeof(T) == 1;
      if (qnn::is_fixed(y.dtype) && (op == Real::divide || op == Real::power || whole)) {
        const Quotient quotient(a, b, y);
        return for_pairs(loop, run.pool, cpu::kElementwiseGrain / 4, run.out<T>(), run.in<T>(0), run.in<B>(1),
                         [&](T p, B q) {
                           return op == Real::power ? power(p, q)
                                  : whole           ? static_cast<T>(quotient.whole(p, q))
                                  : by_one          ? static_cast<T>(quotient.nearest(p, q))
                                                    : static_cast<T>(quotient(p, q));
                         });
      }
    }
    const bool plain = std::is_integral_v<T> && !qnn::is_fixed(y.dtype);
    for_pairs(loop, run.pool, cpu::kElementwiseGrain / 4, run.out<T>(), run.in<T>(0), run.in<B>(1),
              [&](T p, B q) {
                const double u = a.decode(p), v = b.decode(q);
                if constexpr (!std::is_integral_v<T>)
                  if (op == Real::divide) return y.encode<T>(u * reciprocal(v));
                return y.encode<T>(plain ? integers(u, v) : compute(op, u, v));
              });
  }
  void run(const Run& run) const {
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
  Binary step{cpu::BroadcastLoop<3>({&y, &a, &b}), Real::divide, Codec::of(op.in(0)), Codec::of(op.in(1)),
              Codec::of(op.out())};
  for (const Name& n : kNames)
    if (n.type == op.type) step.op = n.op;
  const TensorDef& under = op.in(1);
  step.by_one =
      step.op == Real::divide && qnn::size_of(under.dtype) == 1 && under.count() == 1 && !under.is_constant();
  return prepare.step(step);
}

}  // namespace sixfold::emulator
