#include "sixfold/cpu/vector_math.h"

#include <cstring>

namespace sixfold::cpu {
namespace {

template <Op op>
void apply_span(const float* in, float* out, size_t n, const UnaryParams& params) {
  for (size_t i = 0; i < n; ++i) out[i] = apply_unary<float>(op, in[i], params);
}

}  // namespace

Result<UnaryParams> unary_params(Op op, const Attrs& attrs) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto limit = [&](std::string_view name, double otherwise) {
    const Attr* attr = attrs.find(name);
    return !attr || std::holds_alternative<std::monostate>(*attr) ? otherwise : attrs.real(name);
  };
  switch (op) {
    case Op::gelu: return UnaryParams{attrs.text("approximate") == "tanh" ? 1.0 : 0.0};
    case Op::elu: return UnaryParams{attrs.real("alpha"), attrs.real("scale"), attrs.real("input_scale")};
    case Op::leaky_relu: return UnaryParams{attrs.real("slope")};
    case Op::softplus: return UnaryParams{attrs.real("beta"), attrs.real("threshold")};
    case Op::clamp: return UnaryParams{limit("min", -kInfinity), limit("max", kInfinity)};
    default: return UnaryParams{};
  }
}

Result<UnaryF32> unary_f32(Op op, const Attrs& attrs) {
  SF_ASSIGN(const UnaryParams params, unary_params(op, attrs));
  switch (op) {
#define OP(id, infer_fn, cpu_fn, layout) \
  case Op::id:                           \
    if (std::strcmp(#cpu_fn, "unary") == 0 && std::strcmp(#infer_fn, "same_as_input") == 0 && Op::id != Op::bitwise_not) \
      return UnaryF32(apply_span<Op::id>, params); \
    break;
#include "sixfold/ops/aten.def"
#undef OP
    case Op::call: break;
  }
  return unsupported(op, " is not a float function of one operand");
}

Result<UnaryF32> activation_f32(const Attrs& attrs) {
  const std::string& name = attrs.text("activation");
  if (name == "none") return UnaryF32();
  const std::optional<Op> op = find_op(name);
  if (!op) return unsupported("activation ", name, " is not an op");
  return unary_f32(*op, attrs);
}

void exp_f32(const float* in, float* out, size_t n) { apply_span<Op::exp>(in, out, n, {}); }
void log_f32(const float* in, float* out, size_t n) { apply_span<Op::log>(in, out, n, {}); }
void tanh_f32(const float* in, float* out, size_t n) { apply_span<Op::tanh>(in, out, n, {}); }
void sigmoid_f32(const float* in, float* out, size_t n) { apply_span<Op::sigmoid>(in, out, n, {}); }
float exp_sum_f32(const float* in, float scale, float shift, float* out, size_t n) {
  float sum = 0;
  for (size_t i = 0; i < n; ++i) sum += out[i] = std::exp(scale * in[i] - shift);
  return sum;
}

double erf_inverse(double y) {
  if (std::isnan(y) || std::abs(y) > 1) return std::numeric_limits<double>::quiet_NaN();
  if (std::abs(y) == 1) return std::copysign(std::numeric_limits<double>::infinity(), y);
  // Winitzki's closed form is right to 2e-3; Newton's steps on erf (erfc near the ends, where erf saturates) double
  // the digits each time.
  const double w = std::log1p(-y * y);
  const double t = 2 / (std::numbers::pi * 0.147) + w / 2;
  double x = std::copysign(std::sqrt(std::sqrt(t * t - w / 0.147) - t), y);
  for (int i = 0; i < 3; ++i) {
    const double error = std::abs(y) < 0.5 ? std::erf(x) - y
                                           : std::copysign((1 - std::abs(y)) - std::erfc(std::abs(x)), y);
    x -= error / (2 * std::numbers::inv_sqrtpi * std::exp(-x * x));
  }
  return x;
}

}  // namespace sixfold::cpu
