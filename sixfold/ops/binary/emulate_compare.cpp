// Comparisons, logic and choice on the emulator.
//
// Fixed point is compared in integers: both operands times a 31-bit multiplier, the larger scale being 2^30.
#include "sixfold/emulator/elements.h"
#include "sixfold/emulator/kernel.h"
#include "sixfold/emulator/layout.h"

namespace sixfold::emulator {
namespace {

enum class Test : uint8_t { equal, not_equal, less, less_equal, greater, greater_equal };

struct TestName {
  std::string_view type;
  Test test;
};
constexpr TestName kTests[] = {
    {"ElementWiseEqual", Test::equal},     {"ElementWiseNotEqual", Test::not_equal},
    {"ElementWiseLess", Test::less},       {"ElementWiseLessEqual", Test::less_equal},
    {"ElementWiseGreater", Test::greater}, {"ElementWiseGreaterEqual", Test::greater_equal}};

template <typename V>
bool holds(Test test, V a, V b) {
  switch (test) {
    case Test::equal:
      return a == b;
    case Test::not_equal:
      return a != b;
    case Test::less:
      return a < b;
    case Test::less_equal:
      return a <= b;
    case Test::greater:
      return a > b;
    case Test::greater_equal:
      return a >= b;
  }
  return false;
}

struct Compare {
  cpu::BroadcastLoop<3> loop;
  Test test;
  DataType dtype;
  int64_t scale_a, scale_b, offset_a, offset_b;

  void run(const Run& run) const {
    with_type(dtype, [&](auto t) {
      using T = decltype(t);
      for_pairs(loop, run.pool, cpu::kElementwiseGrain, run.out<uint8_t>(), run.in<T>(0), run.in<T>(1),
                [&](T p, T q) -> uint8_t {
                  if constexpr (std::is_integral_v<T>)
                    return holds(test, (static_cast<int64_t>(p) + offset_a) * scale_a,
                                 (static_cast<int64_t>(q) + offset_b) * scale_b);
                  else
                    return holds(test, static_cast<float>(p), static_cast<float>(q));
                });
    });
  }
};

struct Logic {
  cpu::BroadcastLoop<3> loop;
  char op;  // & | ^
  bool boolean;
  DataType dtype;

  void run(const Run& run) const {
    with_type(dtype, [&](auto t) {
      using T = decltype(t);
      if constexpr (std::is_integral_v<T>) {
        for_pairs(loop, run.pool, cpu::kElementwiseGrain, run.out<T>(), run.in<T>(0), run.in<T>(1),
                  [&](T p, T q) {
                    if (boolean) p = p != 0, q = q != 0;
                    return static_cast<T>(op == '&' ? p & q : op == '|' ? p | q : p ^ q);
                  });
      }
    });
  }
};

// condition ? a : b, each brought to the output's encoding.
struct Select {
  cpu::BroadcastLoop<4> loop;
  DataType dtype;
  Recode a, b;

  void run(const Run& run) const {
    with_type(dtype, [&](auto t) {
      using T = decltype(t);
      const uint8_t* c = run.in<uint8_t>(0);
      const T *p = run.in<T>(1), *q = run.in<T>(2);
      T* y = run.out<T>();
      loop.run(run.pool, cpu::kElementwiseGrain, [&](const auto& at, size_t n) {
        for (size_t i = 0; i < n; ++i) {
          const auto k = static_cast<int64_t>(i);
          const bool first = c[at[1] + k * loop.stride(1)] != 0;
          const T v = first ? p[at[2] + k * loop.stride(2)] : q[at[3] + k * loop.stride(3)];
          const Recode& r = first ? a : b;
          if constexpr (std::is_integral_v<T>)
            y[at[0] + k] = r.same ? v : static_cast<T>(r(static_cast<int64_t>(v), (at[0] + k) % 2 != 0));
          else
            y[at[0] + k] = v;
        }
      });
    });
  }
};

Status check_operands(const OpView& op, size_t first) {
  SF_TRY(check_broadcast(op, first + 2));
  if (op.in(first).dtype != op.in(first + 1).dtype)
    return unsupported("in[", first, "] is ", qnn::to_text(op.in(first).dtype), ", in[", first + 1, "] ",
                       qnn::to_text(op.in(first + 1).dtype));
  return {};
}

}  // namespace

Status check_compare(const OpView& op, const DeviceModel&) {
  SF_TRY(check_operands(op, 0));
  if (op.out().dtype == DataType::boolean) return {};
  return unsupported("out[0] is ", qnn::to_text(op.out().dtype), ", expected BOOL_8");
}

Result<Step> prepare_compare(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  const TensorDef &a = op.in(0), &b = op.in(1);
  const cpu::TensorDesc da = describe(a), db = describe(b), dy = describe(op.out());
  Compare step{cpu::BroadcastLoop<3>({&dy, &da, &db}), Test::equal, a.dtype, 1, 1, 0, 0};
  for (const TestName& n : kTests)
    if (n.type == op.type) step.test = n.test;
  if (qnn::is_fixed(a.dtype)) {
    const ScaleOffset ea = a.encoding(), eb = b.encoding();
    step.offset_a = ea.offset;
    step.offset_b = eb.offset;
    const double most = std::max(static_cast<double>(ea.scale), static_cast<double>(eb.scale));
    if (ea.scale != eb.scale) {
      step.scale_a = std::llround(static_cast<double>(ea.scale) / most * 0x1p30);
      step.scale_b = std::llround(static_cast<double>(eb.scale) / most * 0x1p30);
    }
  }
  return prepare.step(step);
}

Status check_logic(const OpView& op, const DeviceModel&) {
  SF_TRY(check_operands(op, 0));
  if (op.in(0).dtype == op.out().dtype && !op.in(0).is_float()) return {};
  return unsupported("in[0] is ", qnn::to_text(op.in(0).dtype), ", out[0] ", qnn::to_text(op.out().dtype));
}

Result<Step> prepare_logic(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  const cpu::TensorDesc da = describe(op.in(0)), db = describe(op.in(1)), dy = describe(op.out());
  const char what = op.type == "ElementWiseAnd" ? '&' : op.type == "ElementWiseOr" ? '|' : '^';
  return prepare.step(Logic{cpu::BroadcastLoop<3>({&dy, &da, &db}), what, op.out().dtype == DataType::boolean,
                            op.out().dtype});
}

Status check_select(const OpView& op, const DeviceModel&) {
  SF_TRY(check_operands(op, 1));
  if (op.in(0).dtype != DataType::boolean)
    return unsupported("in[0] is ", qnn::to_text(op.in(0).dtype), ", expected BOOL_8");
  if (op.in(1).dtype == op.out().dtype) return {};
  return unsupported("in[1] is ", qnn::to_text(op.in(1).dtype), ", out[0] ", qnn::to_text(op.out().dtype));
}

Result<Step> prepare_select(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  const cpu::TensorDesc c = describe(op.in(0)), a = describe(op.in(1)), b = describe(op.in(2)),
                        y = describe(op.out());
  return prepare.step(Select{cpu::BroadcastLoop<4>({&y, &c, &a, &b}), op.out().dtype,
                             Recode::between(op.in(1), op.out()), Recode::between(op.in(2), op.out())});
}

}  // namespace sixfold::emulator
