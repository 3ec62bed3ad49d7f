// Elementwise ops of one tensor on the NPU.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "sixfold/graph/precision.h"
#include "sixfold/lower/fit.h"
#include "sixfold/lower/lowering.h"

namespace sixfold::lower {
namespace {

// The op's own QNN name, and its number in ElementWiseUnary, which takes more types.
struct UnaryRow {
  Op op;
  const char* type;
  int operation;      // -1: none
  bool five = false;  // takes five axes
};
constexpr UnaryRow kUnary[] = {
    {Op::abs, "ElementWiseAbs", 0, true},
    {Op::asin, "ElementWiseAsin", 1},
    {Op::atan, "ElementWiseAtan", 2},
    {Op::ceil, "ElementWiseCeil", 3},
    {Op::cos, "ElementWiseCos", 4},
    {Op::exp, "ElementWiseExp", 5, true},
    {Op::floor, "ElementWiseFloor", 6},
    {Op::log, "ElementWiseLog", 7},
    {Op::neg, "ElementWiseNeg", 8},
    {Op::logical_not, "ElementWiseNot", 9},
    {Op::reciprocal, nullptr, 10},
    {Op::round, "ElementWiseRound", 11},
    {Op::rsqrt, "ElementWiseRsqrt", 12, true},
    {Op::sign, "ElementWiseSign", 13},
    {Op::sin, "ElementWiseSin", 14},
    {Op::sqrt, "ElementWiseSquareRoot", 15},
    {Op::tanh, "Tanh", -1},
    {Op::sigmoid, "Sigmoid", -1, true},
    {Op::relu, "Relu", -1, true},
    {Op::hardswish, "HardSwish", -1},
    {Op::isnan, "IsNan", -1},
};

// sign(x) floor(|x|)
TensorRef truncated(Lowering& l, TensorRef x) {
  const auto next = [&](const char* type, std::vector<TensorRef> in) {
    const TensorRef y = l.temp(l.spec(x).dims, x);
    l.add(type, std::move(in), {y});
    return y;
  };
  const TensorRef size = next("ElementWiseFloor", {next("ElementWiseAbs", {x})});
  return next("ElementWiseMultiply", {next("ElementWiseSign", {x}), size});
}

// Of ElementWiseNeuron.
constexpr uint32_t kHardSigmoid = 2;

// The finest steps of 16 bits with which the device computes an op right: of its result, and of an elu's
// operand too. 0: there are none.
float finest_steps(Op op) {
  if (op == Op::log) return kFinestLog;  // [htp.log.1]
  if (op == Op::elu) return 0x1p-18f;    // [htp.elu.1]
  return 0;
}

// A tensor like this one, whose steps are not too fine; itself, if they are not.
TensorRef on_fit_steps(Lowering& l, TensorRef t) {
  if (qnn::size_of(l.spec(t).dtype) != 2) return t;
  const auto grid = coarser(l.spec(t), finest_steps(l.op()));
  return grid ? l.temp(l.spec(t).dims, l.spec(t).dtype, *grid) : t;
}

// The sigmoid of x * sigmoid(x) with 16 bits: Qualcomm's library makes one op of the two for images that it
// computed before, which gives anything at small sizes. [htp.silu.1]
bool is_gate_of_itself(const Lowering& l) {
  if (l.op() != Op::sigmoid || !l.quantized() || fixed_bytes(*l.encoding(0)) != 2) return false;
  const ValueId x = l.node().input(0);
  const std::vector<NodeId>& users = l.graph().value(l.node().output()).users;
  return std::any_of(users.begin(), users.end(), [&](NodeId id) {
    const Node& user = l.graph().node(id);
    return user.op == Op::mul && (user.input(0) == x || user.input(1) == x);
  });
}

// Halves that an op must not see. Of one below -88 or so the library's exp may be 131072, of either sign; all
// that is below -17.4 is 0, so nothing is lost at -32.  [htp.exp.1]  The logarithm of 0, which small powers
// become, is -7.6, more than that of the smallest half above it, -16.6.  [htp.log.2]
std::optional<double> least_operand(const Lowering& l) {
  if (l.quantized()) return std::nullopt;
  if (l.op() == Op::exp) return -32;
  if (l.op() == Op::log) return 0x1p-24;
  return std::nullopt;
}
TensorRef bounded(Lowering& l, TensorRef x, double least) {
  const TensorRef y = l.temp(l.spec(x).dims, x);
  l.add("ElementWiseMaximum", {x, l.number(least)}, {y});
  return y;
}

// Four axes are enough for all, and all that most of the device's ops take: the first two become one.
void add_unary(Lowering& l, const char* type, std::vector<Param> params = {}, bool five = false) {
  const bool tests = l.op() == Op::isinf || l.op() == Op::isnan;
  const std::optional<double> least = least_operand(l);
  TensorRef x = tests ? l.in_float() : l.in();
  const TensorRef out = l.out();
  if (!l.status().ok()) return;
  // Accepted for floats and not prepared; halves have the same infinities on the device.  [htp.isinf.2]
  if (l.op() == Op::isinf && l.spec(x).dtype == qnn::DataType::f32) x = l.cast(x, qnn::DataType::f16);
  const TensorRef y = on_fit_steps(l, out);
  if (const TensorRef coarse = l.op() == Op::elu ? on_fit_steps(l, x) : x; coarse != x) {
    l.add("Convert", {x}, {coarse});
    x = coarse;
  }
  const std::vector<uint32_t>& d = l.spec(x).dims;
  std::vector<uint32_t> view;                 // that it is computed in, if another
  if (d.size() == 4 && is_gate_of_itself(l))  // reshapes keep them apart
    view = d[1] > 1 ? std::vector<uint32_t>{d[0], 1, d[1] * d[2], d[3]}
                    : std::vector<uint32_t>{d[0], d[2], 1, d[3]};
  else if (d.size() == 3 && is_gate_of_itself(l))
    view = {d[0] * d[1], d[2]};
  else if (l.rank() == 5 && (!five || least))
    view = {d[0] * d[1], d[2], d[3], d[4]};
  const TensorRef part = view.empty() ? y : l.temp(view, y);
  if (!view.empty()) x = l.reshape(x, view);
  if (least) x = bounded(l, x, *least);
  l.add(type, {x}, {part}, std::move(params));
  if (!view.empty()) l.add("Reshape", {part}, {y});
  if (y != out) l.add("Convert", {y}, {out});
}

}  // namespace

void unary(Lowering& l) {
  if (l.op() == Op::isinf)
    return add_unary(l, "IsInf", {{"detect_negative", true}, {"detect_positive", true}});
  if (l.op() == Op::isnan) return add_unary(l, "IsNan");
  if (l.op() == Op::hardsigmoid)
    return add_unary(l, "ElementWiseNeuron",
                     {{"operation", kHardSigmoid}, {"alpha", 1.0f / 6}, {"beta", 0.5f}});
  for (const UnaryRow& row : kUnary) {
    if (row.op != l.op()) continue;
    const bool is_sq8 = l.quantized() && fixed_type(*l.encoding(0)) == qnn::DataType::sfixed8;
    if (row.type && !(is_sq8 && row.op == Op::neg)) return add_unary(l, row.type, {}, row.five);
    return add_unary(l, "ElementWiseUnary", {{"operation", static_cast<uint32_t>(row.operation)}});
  }
  none(l);
}

void gelu(Lowering& l) { l.add_simple("Gelu"); }

void elu(Lowering& l) { add_unary(l, "Elu", {{"alpha", static_cast<float>(l.attrs().real("alpha"))}}); }

// The slope is a tensor of one number; in fixed point the largest (or smallest) of its own grid.
void leaky_relu(Lowering& l) {
  const double slope = l.attrs().real("slope");
  const Encoding* x = l.encoding(0);
  Encoding e;
  if (x) {
    const bool wide = x->quant_max - x->quant_min > 255, is_unsigned = x->quant_min >= 0;
    e.storage = wide ? (is_unsigned ? DType::u16 : DType::i16) : (is_unsigned ? DType::u8 : DType::i8);
    e.quant_min = x->quant_min;
    e.quant_max = x->quant_max;
    const auto steps = static_cast<double>(x->quant_max - x->quant_min);
    e.scales = {static_cast<float>(slope == 0 ? 1 / steps : std::abs(slope) / steps)};
    e.zero_points = {static_cast<int32_t>(slope < 0 ? x->quant_max : x->quant_min)};
  }
  l.add("Prelu", {l.in(), l.number(slope, x ? &e : nullptr)}, {l.out()});
}

// As the larger and the smaller of two numbers.
static void clamp_by_bounds(Lowering& l, float min, float max) {
  const Encoding* grid = l.out_encoding();
  const TensorRef x = l.in(), y = l.out();
  if (!l.status().ok()) return;
  constexpr float kMost = std::numeric_limits<float>::max();
  const TensorRef above = max == kMost ? y : l.temp(l.spec(x).dims, y);
  if (min != -kMost) l.add("ElementWiseMaximum", {x, l.number(min, grid)}, {above});
  if (max != kMost) l.add("ElementWiseMinimum", {min == -kMost ? x : above, l.number(max, grid)}, {y});
}

void clamp(Lowering& l) {
  // float32's own limits where there is no bound: they bound nothing.
  const auto bound = [&](const char* name, float otherwise) {
    return l.attrs().is_given(name) ? static_cast<float>(l.attrs().real(name)) : otherwise;
  };
  constexpr float kMost = std::numeric_limits<float>::max();
  const float min = bound("min", -kMost), max = bound("max", kMost);
  // Qualcomm's library drops the bounds of a ReluMinMax that it fuses into a convolution; those of these it
  // keeps.
  if (l.encoding(0) && min == 0 && max == 6) return l.add_simple("Relu6", {});
  if (l.encoding(0) && min == -1 && max == 1) return l.add_simple("Relu1", {});
  // Of 16 bits behind a convolution it gives anything.  [htp.clamp.1]
  if (l.quantized() && fixed_bytes(*l.encoding(0)) == 2) return clamp_by_bounds(l, min, max);
  l.add_simple("ReluMinMax", {{"max_value", max}, {"min_value", min}});
}

void to(Lowering& l) {
  TensorRef x = l.in_float();
  // The library reads a byte that becomes a float as a bool.
  if (l.type().dtype == DType::u8 && is_float(l.out_type().dtype)) x = l.cast(x, qnn::DataType::i32);
  // A float that becomes a 64-bit integer is cut first: the library merges two casts into one that rounds.
  if (l.out_type().dtype == DType::i64 && is_float(l.type().dtype)) x = truncated(l, x);
  const TensorRef y = l.out();
  if (!l.out_encoding() || !l.quantized()) return l.add("Cast", {x}, {y});
  const TensorRef real = l.temp(l.spec(y).dims, qnn::DataType::f32);
  l.add("Cast", {x}, {real});
  l.add("Quantize", {real}, {y});
}

}  // namespace sixfold::lower
