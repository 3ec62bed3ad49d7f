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
  double gate = place < 3.25 || (place >= 24.0 / 7 && place < 56.0 / 15) ? 4096 : 4095;
  if (place < 3) {
    const double* c = kCubics[static_cast<int>(place)];
    gate = std::floor(4096 * (((c[3] * size + c[2]) * size + c[1]) * size + c[0]) + 0.5);
  }
  return x < 0 ? 4096 - gate : gate;
}

// 2^17 / sqrt(x) for x of 1 to 65535, a whole number of 512 to 1024 times a power of two: x is moved up to 16
// bits, two at a time, and 48 lines follow the function, each for 1024 numbers. They were fitted to the
// library's results and give all of them but a few in a thousand, which are next to a step.
double inverse_root(int64_t x) {
  static constexpr float kLines[48][2] = {
      {1024.127, 30.522}, {993.474, 27.717}, {965.888, 26.363}, {939.965, 23.814}, {916.369, 22.608},
      {894.002, 20.311},  {873.624, 19.222}, {854.512, 18.178}, {836.561, 17.162}, {819.685, 16.197},
      {803.772, 15.258},  {788.742, 14.365}, {774.500, 13.499}, {760.962, 12.673}, {748.046, 11.882},
      {736.163, 11.882},  {724.549, 11.130}, {713.355, 10.403}, {702.952, 10.396}, {692.806, 9.697},
      {682.920, 9.046},   {673.873, 9.042},  {664.798, 8.411},  {656.386, 8.413},  {647.999, 7.808},
      {640.184, 7.807},   {632.376, 7.242},  {625.134, 7.242},  {617.775, 6.693},  {611.080, 6.702},
      {604.384, 6.704},   {597.888, 6.181},  {591.706, 6.184},  {585.430, 5.697},  {579.735, 5.697},
      {574.039, 5.695},   {568.345, 5.233},  {563.110, 5.233},  {557.876, 5.233},  {552.617, 4.796},
      {547.821, 4.796},   {543.022, 4.796},  {538.063, 4.385},  {533.676, 4.385},  {529.291, 4.389},
      {524.903, 4.385},   {520.498, 4.000},  {516.498, 4.000}};
  double up = 1;
  for (; x < 16384; x *= 4) up *= 2;
  const float* line = kLines[(x >> 10) - 16];
  return up * std::floor(static_cast<double>(line[0]) -
                         static_cast<double>(line[1]) * static_cast<double>(x & 1023) / 1024);
}

}  // namespace

WideResult::WideResult(WideFunction function, const Codec& from, const Codec& to)
    : function_(function), from_(from), to_(to) {
  if (function == WideFunction::sqrt || function == WideFunction::rsqrt) {
    const double root = std::sqrt(from.scale) / to.scale, inverse = 1 / (std::sqrt(from.scale) * to.scale);
    ratio_ = with_bits((function == WideFunction::sqrt ? root : inverse) / 131072, 15);
    return;
  }
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
      // The operand in steps of the result, rounded, times the gate, which is rounded to halves before.
      steps = std::floor(a * ratio_ + 0.5) * std::clamp(std::floor(a * gate_ + 0.75) + 16384, 0.0, 32767.0) /
              32768;
      break;
    case WideFunction::sqrt:  // what is below zero wraps
    case WideFunction::rsqrt:
      if (const int64_t x = (q + from_.offset) & 65535; x > 0)
        steps = inverse_root(x) * (function_ == WideFunction::sqrt ? static_cast<double>(x) : 1.0);
      break;
    case WideFunction::gelu:  // in steps of the operand, rounded; and cut towards zero in the result's
      steps = std::trunc(std::floor(a * gelu_gate(a * from_.scale) / 4096 + 0.5) * ratio_);
      break;
  }
  const double whole = function_ == WideFunction::gelu         ? steps
                       : function_ == WideFunction::hard_swish ? std::floor(steps + 0.5)
                                                               : std::floor(steps * ratio_ + 0.5);
  const double y = whole - static_cast<double>(to_.offset);
  return static_cast<uint16_t>(static_cast<int64_t>(
      std::clamp(y, static_cast<double>(to_.limits.min), static_cast<double>(to_.limits.max))));
}

}  // namespace sixfold::emulator
