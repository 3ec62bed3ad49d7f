// Elementwise ops of one operand on the emulator.
//
// Fixed point: a table of all 256 or 65,536 results, each the exact function of the real, rounded to the
// nearest step; ties go to the even number with 8 bits (whose reals are floats), with 16 away from zero, and
// up where numbers are negated. Some of 16 bits have the library's own (emulate_wide.h). Floats: the function
// in float, rounded to half. Integers: as they are.
#include <cmath>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "sixfold/cpu/broadcast.h"
#include "sixfold/cpu/half_rows.h"
#include "sixfold/emulator/elements.h"
#include "sixfold/emulator/kernel.h"
#include "sixfold/emulator/neuron.h"
#include "sixfold/ops/unary/emulate_product.h"
#include "sixfold/ops/unary/emulate_wide.h"

namespace sixfold::emulator {
namespace {

enum class Unary : uint8_t {
  abs,
  asin,
  atan,
  ceil,
  cos,
  exp,
  floor,
  log,
  neg,
  logical_not,
  reciprocal,
  round,
  rsqrt,
  sign,
  sin,
  sqrt,
  elu,
  gelu,
  hard_sigmoid,
  hard_swish,
  relu,
  clamp,
  sigmoid,
  softplus,
  tanh,
  is_nan,
  is_inf,
  none,
};

// Numbers of ElementWiseUnary's parameter `operation`.
constexpr Unary kOperations[] = {Unary::abs,   Unary::asin,        Unary::atan,       Unary::ceil,
                                 Unary::cos,   Unary::exp,         Unary::floor,      Unary::log,
                                 Unary::neg,   Unary::logical_not, Unary::reciprocal, Unary::round,
                                 Unary::rsqrt, Unary::sign,        Unary::sin,        Unary::sqrt};

struct Name {
  std::string_view type;
  Unary op;
};
constexpr Name kNames[] = {{"ElementWiseAbs", Unary::abs},
                           {"ElementWiseAsin", Unary::asin},
                           {"ElementWiseAtan", Unary::atan},
                           {"ElementWiseCeil", Unary::ceil},
                           {"ElementWiseCos", Unary::cos},
                           {"ElementWiseExp", Unary::exp},
                           {"ElementWiseFloor", Unary::floor},
                           {"ElementWiseLog", Unary::log},
                           {"ElementWiseNeg", Unary::neg},
                           {"ElementWiseNot", Unary::logical_not},
                           {"ElementWiseRound", Unary::round},
                           {"ElementWiseRsqrt", Unary::rsqrt},
                           {"ElementWiseSign", Unary::sign},
                           {"ElementWiseSin", Unary::sin},
                           {"ElementWiseSquareRoot", Unary::sqrt},
                           {"Elu", Unary::elu},
                           {"Gelu", Unary::gelu},
                           {"HardSigmoid", Unary::hard_sigmoid},
                           {"HardSwish", Unary::hard_swish},
                           {"Relu", Unary::relu},
                           {"Relu1", Unary::clamp},
                           {"Relu6", Unary::clamp},
                           {"ReluMinMax", Unary::clamp},
                           {"Sigmoid", Unary::sigmoid},
                           {"Softplus", Unary::softplus},
                           {"Tanh", Unary::tanh},
                           {"IsNan", Unary::is_nan},
                           {"IsInf", Unary::is_inf}};

struct Function {
  Unary op = Unary::none;
  double alpha = 1, beta = 0, min = 0, max = 0;
  bool negative = true, positive = true;  // of is_inf
  bool operator==(const Function&) const = default;

  template <typename R>
  R operator()(R x) const {
    const R a = static_cast<R>(alpha), b = static_cast<R>(beta);
    switch (op) {
      case Unary::abs:
        return std::abs(x);
      case Unary::asin:
        return std::asin(x);
      case Unary::atan:
        return std::atan(x);
      case Unary::ceil:
        return std::ceil(x);
      case Unary::cos:
        return std::cos(x);
      case Unary::exp:
        return std::exp(x);
      case Unary::floor:
        return std::floor(x);
      case Unary::log:
        return std::log(x);
      case Unary::neg:
        return -x;
      case Unary::logical_not:
        return x == 0 ? R{1} : R{0};
      case Unary::reciprocal:
        return 1 / x;
      case Unary::round:
        return std::nearbyint(x);
      case Unary::rsqrt:
        return 1 / std::sqrt(x);
      case Unary::sign:
        return x > 0 ? R{1} : x < 0 ? R{-1} : x;
      case Unary::sin:
        return std::sin(x);
      case Unary::sqrt:
        return std::sqrt(x);
      case Unary::elu:
        return x > 0 ? x : a * std::expm1(x);
      case Unary::gelu:
        return R{0.5} * x * (1 + std::erf(x * static_cast<R>(0.70710678118654752440)));
      case Unary::hard_sigmoid:
        return std::max(R{0}, std::min(R{1}, a * x + b));
      case Unary::hard_swish:
        return x * std::max(R{0}, std::min(R{6}, x + 3)) / 6;
      case Unary::relu:
        return x > 0 ? x : x != x ? x : R{0};
      case Unary::clamp:
        return x != x ? x : std::max(static_cast<R>(min), std::min(static_cast<R>(max), x));
      case Unary::sigmoid:
        return 1 / (1 + std::exp(-x));
      case Unary::softplus:
        return b * x > 20 ? x : std::log1p(std::exp(b * x)) / b;
      case Unary::tanh:
        return std::tanh(x);
      case Unary::is_nan:
        return !(std::abs(x) <= R{DeviceHalf::kInfinity}) ? R{1} : R{0};
      case Unary::is_inf:
        return std::abs(x) == R{DeviceHalf::kInfinity} && (x > 0 ? positive : negative) ? R{1} : R{0};
      case Unary::none:
        break;
    }
    return x;
  }
};

Function function_of(const OpView& op) {
  Function f;
  if (op.type == "ElementWiseUnary") {
    const uint32_t n = op.u32("operation", UINT32_MAX);
    f.op = n < std::size(kOperations) ? kOperations[n] : Unary::none;
  } else {
    const bool neuron = op.type == "ElementWiseNeuron";
    const std::string_view type = neuron ? neuron_type(op.u32("operation", UINT32_MAX)) : op.type;
    for (const Name& name : kNames)
      if (name.type == type) f.op = name.op;
  }
  f.alpha = static_cast<double>(op.f32("alpha", f.op == Unary::hard_sigmoid ? 0.2f : 1.0f));
  f.beta = static_cast<double>(op.f32("beta", f.op == Unary::softplus ? 1.0f : 0.5f));
  const bool one = op.type == "Relu1", six = op.type == "Relu6";
  f.min = static_cast<double>(op.f32("min_value", one ? -1.0f : 0.0f));
  f.max = static_cast<double>(op.f32("max_value", one ? 1.0f : six ? 6.0f : 0.0f));
  f.negative = op.boolean("detect_negative", true);
  f.positive = op.boolean("detect_positive", true);
  return f;
}

// y[i] = table[x[i]], for signed elements from the smallest on.
struct Lookup {
  const void* table;
  DataType in, out;
  int64_t count;
  // The table is the stored number between these: a rectifier whose sides have one encoding.
  bool clamps = false;
  int32_t min = 0, max = 0;
  bool by_place = false;  // from 16 to 16 bits: a second table, for elements at odd places

  template <typename U>
  void find_clamp() {
    if (in != out || by_place) return;
    const bool is_signed = limits_of(in).min < 0;
    const auto* entries = static_cast<const U*>(table);
    const auto number = [&](size_t bits) {
      return is_signed ? int32_t{static_cast<std::make_signed_t<U>>(bits)} : static_cast<int32_t>(bits);
    };
    const size_t entries_count = size_t{1} << (8 * sizeof(U));
    min = max = number(entries[0]);
    for (size_t i = 0; i < entries_count; ++i) {
      min = std::min(min, number(entries[i]));
      max = std::max(max, number(entries[i]));
    }
    clamps = true;
    for (size_t i = 0; clamps && i < entries_count; ++i)
      clamps = number(entries[i]) == std::clamp(number(i), min, max);
  }

  template <typename T, typename U>
  void run_as(const Run& run) const {
    const auto* x = run.in<T>(0);
    const auto* entries = static_cast<const U*>(table);
    U* y = run.out<U>();
    run.pool.for_ranges(count, cpu::kElementwiseGrain, [&](int64_t begin, int64_t end) {
      if (by_place)
        for (int64_t i = begin; i < end; ++i) y[i] = entries[(i % 2 << 16) + x[i]];
      else
        for (int64_t i = begin; i < end; ++i) y[i] = entries[x[i]];
    });
  }
  void run(const Run& run) const {
    const bool wide_in = qnn::size_of(in) > 1, wide_out = qnn::size_of(out) > 1;
    const auto size = static_cast<int64_t>(qnn::size_of(in));
    if (clamps)
      return run.pool.for_ranges(count, cpu::kElementwiseGrain, [&](int64_t begin, int64_t end) {
        cpu::clamp_row(stored_as(in), run.ins[0] + begin * size, run.outs[0] + begin * size, end - begin, min,
                       max);
      });
    if (!wide_in && !wide_out)
      return run.pool.for_ranges(count, cpu::kElementwiseGrain, [&](int64_t begin, int64_t end) {
        cpu::lookup_bytes(static_cast<const uint8_t*>(table), run.in<uint8_t>(0) + begin,
                          run.out<uint8_t>() + begin, end - begin);
      });
    if (!wide_in) return run_as<uint8_t, uint16_t>(run);
    if (!wide_out) return run_as<uint16_t, uint8_t>(run);
    run_as<uint16_t, uint16_t>(run);
  }
};

template <typename U>
Step lookup(Lookup state, Prepare& prepare) {
  state.find_clamp<U>();
  Step step = prepare.step(state);
  step.clamps = state.clamps;
  step.clamp = {state.min, state.max};
  return step;
}

// What the matrix unit has of its own; null: nothing.
const ProductFunction* product_function(Unary op) {
  switch (op) {
    case Unary::sigmoid:
      return &kProductSigmoid;
    case Unary::tanh:
      return &kProductTanh;
    case Unary::gelu:
      return &kProductGelu;
    default:
      return nullptr;
  }
}

// Floats that the matrix unit gave, before they are rounded or as halves.
struct OfProduct {
  ProductFunction f;
  int64_t count;
  bool keeps_gate;  // for the product that rounds it

  void run(const Run& run) const {
    const float* x = run.in<float>(0);
    float* y = run.out<float>();
    run.pool.for_ranges(count, cpu::kElementwiseGrain / 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto v = static_cast<float>(f(static_cast<double>(x[i])));
        y[i] = keeps_gate ? v : to_ieee_half(v);
      }
    });
  }
};

// Results of all halves, shared by steps of one function.
using HalfTable = std::vector<float>;

struct Elementwise {
  Function f;
  DataType in, out;
  int64_t count;
  std::shared_ptr<const HalfTable> table;  // of floats; null: few elements

  // Clamps end at infinity's place, whatever their bounds; a root that is no number is the least one.
  float value(float x) const {
    if (f.op == Unary::log && x == 0) return std::signbit(x) ? -17 : -7.625f;  // the polynomial goes on
    const float v = f(x);
    if (v != v) return -DeviceHalf::kLargest;
    return f.op == Unary::relu || f.op == Unary::clamp ? std::min(v, DeviceHalf::kInfinity) : v;
  }
  template <typename U, typename T>
  U result(T x) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<U>(static_cast<int64_t>(f(static_cast<double>(x))));
    else if (f.op == Unary::sigmoid && static_cast<float>(x) < 0)  // 1 minus the other side's
      return static_cast<U>(1 - to_half(f(-static_cast<float>(x))));
    else if constexpr (std::is_same_v<U, float>)
      return to_half(value(static_cast<float>(x)));
    else
      return static_cast<U>(value(static_cast<float>(x)));
  }
  template <typename T, typename U>
  void run_as(const Run& run) const {
    const T* x = run.in<T>(0);
    U* y = run.out<U>();
    run.pool.for_ranges(count, cpu::kElementwiseGrain / 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = result<U>(x[i]);
    });
  }
  void run(const Run& run) const {
    if (table)
      return run.pool.for_ranges(count, cpu::kElementwiseGrain / 2, [&](int64_t begin, int64_t end) {
        cpu::lookup_halves(table->data(), run.in<float>(0) + begin, run.out<float>() + begin, end - begin);
      });
    with_type(in, [&](auto t) {
      using T = decltype(t);
      if (out == DataType::boolean) return run_as<T, uint8_t>(run);
      run_as<T, T>(run);
    });
  }
};

std::shared_ptr<const HalfTable> table_of(const Function& f) {
  static std::mutex mutex;
  static std::vector<std::pair<Function, std::weak_ptr<const HalfTable>>> made;
  const std::scoped_lock lock(mutex);
  std::erase_if(made, [](const auto& entry) { return entry.second.expired(); });
  for (const auto& [function, table] : made)
    if (function == f)
      if (auto kept = table.lock()) return kept;
  const Elementwise one{f, DataType::f32, DataType::f32, 1, nullptr};
  auto results = std::make_shared<HalfTable>(65536);
  for (size_t i = 0; i < results->size(); ++i) {
    DeviceHalf half;
    half.bits = static_cast<uint16_t>(i);
    (*results)[i] = one.result<float>(static_cast<float>(half));
  }
  made.emplace_back(f, results);
  return results;
}

// Rectifiers of floats, with bounds that are halves.
struct ClampHalves {
  float min, max;
  int64_t count;

  void run(const Run& run) const {
    run.pool.for_ranges(count, cpu::kElementwiseGrain, [&](int64_t begin, int64_t end) {
      cpu::clamp_halves(run.in<float>(0) + begin, run.out<float>() + begin, end - begin, min, max);
    });
  }
};

// A HardSwish of a convolution's sums (emulator/widen.h), which is cut, not rounded.
class HardSwishOfSums {
 public:
  HardSwishOfSums(const TensorDef& x, const TensorDef& y)
      : channels_(x.dims.back()),
        pixels_(x.count() / std::max<int64_t>(1, channels_)),
        zero_(-static_cast<double>(y.encoding().offset)) {
    for (int64_t c = 0; c < channels_; ++c)
      add(static_cast<double>(x.channel_encoding(static_cast<size_t>(c)).scale),
          static_cast<double>(y.encoding().scale));
  }

  void run(const Run& run) const {
    const auto at = [this](Of of) { return values_[of].data(); };
    const cpu::WideSwishRow row{at(up), at(far), at(slope), at(middle), at(open), at(whole), zero_};
    for_pixels(run, pixels_, channels_, [&](int64_t at) {
      cpu::hard_swish_sums(row, run.in<int32_t>(0) + at, run.out<uint16_t>() + at, channels_);
    });
  }

 private:
  enum Of { up, far, slope, middle, open, whole, kOf };

  // A channel whose sums have this unit: the factor f * 2^e to steps of the result, 1/2 <= f < 1, leaves them
  // 8 + e places and a last bit. The gate is a part of f in 2^-20; from x = 3 on f itself in 2^-22.
  void add(double unit, double step) {
    int e = 0;
    const double f = std::frexp(unit / step, &e);
    e = std::clamp(e, -40, 20);
    const auto nearest = [](double v) { return std::floor(v + 0.5); };
    const auto set = [this](Of of, double v) { values_[of].push_back(v); };
    set(up, std::ldexp(1.0, 7 + e));
    set(far, std::floor(std::min(std::ldexp(4 / unit, 8 + e), 0x1p30)));
    set(slope, std::ldexp(nearest(std::ldexp(f * unit / 6, 38 - e)), -26));
    set(middle, nearest(std::ldexp(f, 19)));
    set(open, nearest(std::ldexp(f, 20)));
    set(whole, nearest(std::ldexp(f, 22)) / 4);
  }

  int64_t channels_, pixels_;
  double zero_;
  std::array<std::vector<double>, kOf> values_;
};

// The same with 8 bits. The sums are cut so that 15 bits reach as far as the result does. Those that have
// fewer bits are whole, or shifted up as far as a gate of 12 bits lets them; other gates have 11 bits at
// most.
class NarrowSwishOfSums {
 public:
  NarrowSwishOfSums(const TensorDef& x, const TensorDef& y)
      : channels_(x.dims.back()),
        pixels_(x.count() / std::max<int64_t>(1, channels_)),
        zero_(-y.encoding().offset) {
    const double step = static_cast<double>(y.encoding().scale);
    const double reach = std::max(255 - zero_, 1) * step;
    for (int64_t c = 0; c < channels_; ++c)
      add(static_cast<double>(x.channel_encoding(static_cast<size_t>(c)).scale), step, reach);
  }

  void run(const Run& run) const {
    const auto at = [this](Of of) { return values_[of].data(); };
    const cpu::SwishRow row{.left = at(left),
                            .right = at(right),
                            .fine_left = at(fine_left),
                            .fine_right = at(fine_right),
                            .odd = at(odd),
                            .round = at(round),
                            .slope = at(slope),
                            .middle = at(middle),
                            .most = at(most),
                            .low = at(low),
                            .high = at(high),
                            .shut = at(shut),
                            .open = at(open),
                            .zero = zero_};
    for_pixels(run, pixels_, channels_, [&](int64_t at) {
      cpu::hard_swish_bytes(row, run.in<int32_t>(0) + at, run.out<uint8_t>() + at, channels_);
    });
  }

 private:
  enum Of { left, right, fine_left, fine_right, odd, round, slope, middle, most, low, high, shut, open, kOf };

  // The places that sums with this unit are cut, 1 for none: numbers have a half as their last bit.
  static int places(double unit, double step, double reach) {
    int of_reach = 0, of_step = 0;
    std::frexp(unit / reach, &of_reach);
    std::frexp(unit / step * (1 - 0x1p-17), &of_step);
    const int cut = -12 - of_reach;
    return std::clamp(cut >= 1 ? cut : std::min(1, -3 - of_step), -8, 31);
  }

  // Slopes have 12 bits: of a steeper gate the sums have more places, and no last bit.
  void add(double unit, double step, double reach) {
    const int cut = places(unit, step, reach);
    const double one = std::ldexp(unit, cut), gate = std::min(one / step * 32768, 0x1p20);
    const double steep = std::min({one / 6 * gate * 2048, 64 * gate, 0x1p18});
    const auto whole = [](double v) { return static_cast<int64_t>(std::floor(v + 0.5)); };
    const int64_t b = whole(gate / 2), f = whole(gate) == 4096 ? b : whole(gate);  // 4096 has no room
    int more = 0;
    std::frexp(steep / 4096, &more);
    more = std::max(more, 0);
    const bool fine = more > 0;
    const int64_t m = std::max<int64_t>(1, whole(std::ldexp(steep, -more)) * (fine ? 2 : 1));
    const int shift = cut - 1, fine_shift = fine ? cut - more : shift;
    const auto sum = [](int64_t number, int places) {
      const double v = std::floor(std::ldexp(static_cast<double>(number), places));
      return static_cast<int32_t>(std::clamp(v, -0x1p31, 0x1p31 - 1));
    };
    const int64_t shuts = -((b + 2) * 4096 / m + 4), opens = (f - b + 2) * 4096 / m + 4;
    const int64_t full =
        (int64_t{256} << 16) / std::max<int64_t>(1, f) + 4;  // the result is at the grid's end
    const auto set = [this](Of of, int64_t v) { values_[of].push_back(static_cast<int32_t>(v)); };
    set(left, std::max(-shift, 0)), set(right, std::max(shift, 0));
    set(fine_left, std::max(-fine_shift, 0)), set(fine_right, std::max(fine_shift, 0));
    set(odd, fine ? 0 : 1), set(round, fine ? 2048 : 0);
    set(slope, m), set(middle, b), set(most, f);
    set(shut, sum(shuts, fine_shift)), set(open, sum(opens, fine_shift) + int64_t{fine_shift < 0});
    set(low, values_[shut].back());
    set(high, std::max(values_[open].back(), sum(std::min<int64_t>(full, 131068), shift)));
  }

  int64_t channels_, pixels_;
  int32_t zero_;
  std::array<std::vector<int32_t>, kOf> values_;
};

std::optional<WideFunction> wide_function(Unary op) {
  switch (op) {
    case Unary::sigmoid:
      return WideFunction::sigmoid;
    case Unary::tanh:
      return WideFunction::tanh;
    case Unary::hard_swish:
      return WideFunction::hard_swish;
    case Unary::gelu:
      return WideFunction::gelu;
    case Unary::sqrt:
      return WideFunction::sqrt;
    case Unary::rsqrt:
      return WideFunction::rsqrt;
    default:
      return std::nullopt;
  }
}

}  // namespace

Status check_unary(const OpView& op, const DeviceModel&) {
  const TensorDef &x = op.in(0), &y = op.out();
  if (x.count() != y.count()) return unsupported("in[0] has dims ", x.dims, ", out[0] ", y.dims);
  const Function f = function_of(op);
  if (f.op == Unary::none) return unsupported("operation is ", op.u32("operation", UINT32_MAX));
  if (is_narrow_fixed(x.dtype) != is_narrow_fixed(y.dtype) ||
      (!is_narrow_fixed(x.dtype) && x.dtype != y.dtype && y.dtype != DataType::boolean))
    return unsupported("in[0] is ", qnn::to_text(x.dtype), ", out[0] ", qnn::to_text(y.dtype));
  return {};
}

Result<Step> prepare_unary(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  const TensorDef &x = op.in(0), &y = op.out();
  const Function f = function_of(op);
  const bool of_sums = f.op == Unary::hard_swish && x.dtype == DataType::sfixed32 && x.rank() > 0;
  if (of_sums && y.dtype == DataType::ufixed8) return prepare.step(NarrowSwishOfSums(x, y));
  if (of_sums && y.dtype == DataType::ufixed16) return prepare.step(HardSwishOfSums(x, y));
  if (x.is_product && x.dtype == DataType::f32)
    if (const ProductFunction* own = product_function(f.op))
      return prepare.step(OfProduct{*own, x.count(), y.keeps_sums});
  const bool floats = x.dtype == DataType::f32 && y.dtype == DataType::f32;
  if (floats && (f.op == Unary::relu || f.op == Unary::clamp)) {
    const double max = f.op == Unary::relu ? HUGE_VAL : f.max;
    const auto bound = [](double v) {
      return to_half(std::min(static_cast<float>(v), DeviceHalf::kInfinity));
    };
    return prepare.step(ClampHalves{bound(f.op == Unary::relu ? 0 : f.min), bound(max), x.count()});
  }
  constexpr int64_t kMany = 16384;  // elements that a table is worth
  if (!is_narrow_fixed(x.dtype))
    return prepare.step(
        Elementwise{f, x.dtype, y.dtype, x.count(), floats && x.count() >= kMany ? table_of(f) : nullptr});
  const size_t count = qnn::size_of(x.dtype) == 1 ? 256 : 65536;
  const Codec from = Codec::of(x), to = Codec::of(y);
  const bool wide = qnn::size_of(x.dtype) == 2 && qnn::size_of(y.dtype) == 2;
  const bool is_byte = count == 256 && qnn::size_of(y.dtype) == 1;
  std::optional<WideResult> own;
  if (const auto function = wide ? wide_function(f.op) : std::nullopt) own.emplace(*function, x, y);
  if (own && !own->applies()) own.reset();
  const bool by_place = own && own->by_place();
  // Entry i is for the bits i of an element.
  const auto fill = [&]<typename U>(std::span<U> table) {
    for (size_t i = 0; i < table.size(); ++i) {
      const auto bits = static_cast<int64_t>(i % count);
      const int64_t q = from.limits.min < 0 ? (count == 256 ? int64_t{static_cast<int8_t>(bits)}
                                                            : int64_t{static_cast<int16_t>(bits)})
                                            : bits;
      if (own) {
        table[i] = static_cast<U>((*own)(q, i >= count));
        continue;
      }
      const double steps = static_cast<double>(q + from.offset), real = steps * from.scale;
      const double result = f(is_byte ? double{static_cast<float>(real)} : real);
      // The device's not-a-number is the largest, but a logarithm's the smallest.
      if (std::isnan(result) && f.op != Unary::log)
        table[i] = static_cast<U>(to.limits.max);
      else if (f.op == Unary::neg)
        table[i] = to.encode_steps<U>(-real / to.scale);
      else
        table[i] = is_byte ? to.encode_entry(static_cast<float>(result)) : to.encode<U>(result);
    }
  };
  if (qnn::size_of(y.dtype) == 1) {
    SF_ASSIGN(const uint8_t* table,
              prepare.pack_values<uint8_t>(count, [&](std::span<uint8_t> t) { fill(t); }));
    return lookup<uint8_t>({.table = table, .in = x.dtype, .out = y.dtype, .count = x.count()}, prepare);
  }
  SF_ASSIGN(const uint16_t* table, prepare.pack_values<uint16_t>(by_place ? 2 * count : count,
                                                                 [&](std::span<uint16_t> t) { fill(t); }));
  return lookup<uint16_t>(
      {.table = table, .in = x.dtype, .out = y.dtype, .count = x.count(), .by_place = by_place}, prepare);
}

}  // namespace sixfold::emulator
