#include "sixfold/ops/unary/emulate_wide.h"

#include <cmath>

namespace sixfold::emulator {
namespace {

double with_bits(double x, int bits) {
  int exponent = 0;
  const double mantissa = std::frexp(x, &exponent);
  return std::ldexp(std::floor(std::ldexp(mantissa, bits) + 0.5), exponent - bits);
}

// Parts of 32768. The operand is cut to parts of 1 / 6144. The library's polynomials are 0.28 of a part below
// the function on average, and its negative side mirrors the positive one.
double sigmoid(double x) {
  const double cut = std::floor(std::abs(x) * 6144) / 6144;
  const double v = std::min(std::floor(32768 / (1 + std::exp(-cut)) + 0.22), 32767.0);
  return x < 0 ? 32767 - v : v;
}
double tanh(double x) {
  const double cut = std::floor(std::abs(x) * 12288) / 12288;
  const double v = std::min(std::floor(32768 * std::tanh(cut) + 0.43), 32767.0);
  return x < 0 ? -1 - v : v;
}

// The share of x that a Gelu lets through, in parts of 4096: the normal distribution's as three cubic
// polynomials, one for each sqrt(2). They were fitted to the library's results, from which they are 1/8 of a
// part away at most.
double gelu_gate(double x) {
  static constexpr double kCubics[3][4] = {{0.49999722, 0.4097749, -0.04132441, -0.02692267},
                                           {0.43245587, 0.59406567, -0.21255088, 0.02588143},
                                           {0.92923414, 0.05220619, -0.01283662, 0.00105232}};
  const double size = std::abs(x), place = size * 0.70710678118654752440;
  double gate = size < 4.6 ? 4096 : 4095;
  if (place < 3) {
    const double* c = kCubics[static_cast<int>(place)];
    gate = std::floor(4096 * (((c[3] * size + c[2]) * size + c[1]) * size + c[0]) + 0.5);
  }
  return x < 0 ? 4096 - gate : gate;
}

}  // namespace

WideResult::WideResult(WideFunction function, const Codec& from, const Codec& to)
    : function_(function), from_(from), to_(to) {
  const bool gates = function == WideFunction::hard_swish || function == WideFunction::gelu;
  ratio_ = (gates ? from.scale : 0x1p-15) / to.scale;
  // 1 / 65535 counts as 1 / 65536.
  if (const double rounded = with_bits(ratio_, 15); gates || rounded == std::round(rounded)) ratio_ = rounded;
  gate_ = with_bits(from.scale / 6 * 32768, 15);
}

uint16_t WideResult::operator()(int64_t q) const {
  const auto a = static_cast<double>(q + from_.offset);
  double steps = 0;
  switch (function_) {
    case WideFunction::sigmoid:
      steps = sigmoid(a * from_.scale);
      break;
    case WideFunction::tanh:
      steps = tanh(a * from_.scale);
      break;
    case WideFunction::hard_swish:
      steps = a * std::clamp(std::floor(a * gate_ + 0.5) + 16384, 0.0, 32767.0) / 32768;
      break;
    case WideFunction::gelu:  // in steps of the operand, rounded; and cut towards zero in the result's
      steps = std::trunc(std::floor(a * gelu_gate(a * from_.scale) / 4096 + 0.5) * ratio_);
      break;
  }
  const double whole = function_ == WideFunction::gelu ? steps : std::floor(steps * ratio_ + 0.5);
  const double y = whole - static_cast<double>(to_.offset);
  return static_cast<uint16_t>(static_cast<int64_t>(
      std::clamp(y, static_cast<double>(to_.limits.min), static_cast<double>(to_.limits.max))));
}

}  // namespace sixfold::emulator
