#include "sixfold/ops/unary/emulate_wide.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace sixfold::emulator {
namespace {

double with_bits(double x, int bits) {
  int exponent = 0;
  const double mantissa = std::frexp(x, &exponent);
  return std::ldexp(std::floor(std::ldexp(mantissa, bits) + 0.5), exponent - bits);
}

// tanh(u / 12288) in parts of 32768, u being of 16 bits. With what is left of the operand's range, squared,
// the function is flat where its slope changes; sixteen cubic polynomials of that follow it, each coefficient
// with as many bits as the next one's product needs. All 65,536 results are the library's.
int64_t tanh_parts(int64_t u) {
  static constexpr int16_t kCubics[16][4] = {
      {32766, -58, -36, -2250},      {32746, -117, -389, -1508},     {32702, -250, -672, -2384},
      {32613, -475, -1115, -3451},   {32453, -837, -1760, -4848},    {32179, -1392, -2667, -6532},
      {31735, -2214, -3894, -8356},  {31044, -3385, -5465, -10012},  {30007, -4987, -7354, -10810},
      {28509, -7078, -9406, -9904},  {26426, -9658, -11296, -6316},  {23647, -12622, -12509, 524},
      {20101, -15726, -12443, 9882}, {15800, -18595, -10586, 19188}, {10858, -20788, -6953, 25578},
      {5494, -21927, -2101, 26174}};
  const int64_t left = 65535 - std::min<int64_t>(u, 65535), square = (left * left) >> 16, x = square & 4095;
  const int16_t* c = kCubics[square >> 12];
  const int64_t second = c[2] + ((c[3] * x + 32768) >> 16), first = c[1] + ((second * x + 16384) >> 15);
  return c[0] + ((first * x + 8192) >> 14);
}

// The share of x that a Gelu lets through, in parts of 4096, u being |x| / sqrt(2) in 2^-14: the normal
// distribution's as a cubic polynomial of u / 65536 for each sqrt(2) of x, each step rounded to a whole
// number. All results below 3 sqrt(2) are the library's; there they change three times.
int64_t gelu_gate(int64_t u) {
  static constexpr int64_t kCubics[3][4] = {
      {-19971, -10827, 18989, 4096}, {19199, -55738, 27536, 3542}, {808, -3461, 2474, 7602}};
  if (u >= 3 << 14) return u <= 53248 || (u >= 56174 && u < 61167) ? 4096 : 4095;
  const int64_t* c = kCubics[u >> 14];  // after the first twice the coefficients
  int64_t x = c[0];
  for (int i = 1; i < 4; ++i) x = (x * u + ((c[i] + 1) << 15)) >> 16;
  return x;
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

WideResult::WideResult(WideFunction function, const TensorDef& x, const TensorDef& y)
    : function_(function), from_(Codec::of(x)), to_(Codec::of(y)) {
  const double from = from_.scale, to = to_.scale;
  switch (function) {
    case WideFunction::tanh:
    case WideFunction::sigmoid: {
      // u is the operand's size (a sigmoid's half of it) times 12288, cut: a multiplier of 15 bits, of 2^-15
      // at the least.
      const double factor = from * (function == WideFunction::sigmoid ? 6144 : 12288);
      ratio_ = factor < 1 ? std::floor(factor * 32768 + 0.5) / 32768 : with_bits(factor, 15);
      // A tanh has parts of 1 / 32768, a sigmoid even ones of 1 / 65536, and its 1 / 65535 counts as that.
      const bool unit = function == WideFunction::sigmoid;
      TensorDef parts = x;
      parts.dtype = unit ? DataType::ufixed16 : DataType::sfixed16;
      parts.quantization = ScaleOffset{unit ? 0x1p-16f : 0x1p-15f, 0};
      const double steps = with_bits(0x1p-15 / to, 15);
      const bool whole = unit && steps == std::round(steps);
      recode_ = Recode::between(parts, y, whole || x.kind == TensorKind::native);
      break;
    }
    case WideFunction::sqrt:
      ratio_ = with_bits(std::sqrt(from) / to / 131072, 15);
      break;
    case WideFunction::rsqrt:
      ratio_ = with_bits(1 / (std::sqrt(from) * to) / 131072, 15);
      break;
    case WideFunction::hard_swish:
      gate_ = with_bits(from / 6 * 32768, 15);
      [[fallthrough]];
    case WideFunction::gelu:
      ratio_ = with_bits(from / to, 15);
      if (function == WideFunction::gelu) gate_ = with_bits(from * 16384 * std::numbers::sqrt2 / 2, 15);
      break;
  }
}

uint16_t WideResult::operator()(int64_t q, bool odd) const {
  const auto a = static_cast<double>(q + from_.offset);
  double whole = 0;
  switch (function_) {
    case WideFunction::tanh:
    case WideFunction::sigmoid: {
      const bool halves = function_ == WideFunction::sigmoid;  // (1 + tanh(x / 2)) / 2
      const auto u = static_cast<int64_t>(std::min(std::abs(a) * ratio_, 65535.0));
      const int64_t size = tanh_parts(u), parts = a < 0 ? -1 - size : size;
      return static_cast<uint16_t>(recode_(halves ? 32768 + (parts & -2) : parts, odd));
    }
    case WideFunction::hard_swish:
      // The operand in steps of the result, rounded, times the gate, which is rounded to halves before.
      whole = std::floor(std::floor(a * ratio_ + 0.5) *
                             std::clamp(std::floor(a * gate_ + 0.75) + 16384, 0.0, 32767.0) / 32768 +
                         0.5);
      break;
    case WideFunction::sqrt:  // what is below zero wraps
    case WideFunction::rsqrt:
      if (const int64_t x = (q + from_.offset) & 65535; x > 0)
        whole = std::floor(inverse_root(x) *
                               (function_ == WideFunction::sqrt ? static_cast<double>(x) : 1.0) * ratio_ +
                           0.5);
      break;
    case WideFunction::gelu: {  // in steps of the operand, rounded; and cut in the result's. Both without a
                                // sign.
      const auto u = static_cast<int64_t>(std::min(std::floor(std::abs(a) * gate_ + 0.5), 65535.0));
      const int64_t gate = gelu_gate(u), share = a < 0 ? std::max<int64_t>(4096 - gate, 0) : gate;
      const double steps = std::floor(std::abs(a) * static_cast<double>(share) / 4096 + 0.5);
      whole = std::copysign(std::floor(steps * ratio_), a);
      break;
    }
  }
  const double y = whole - static_cast<double>(to_.offset);
  return static_cast<uint16_t>(static_cast<int64_t>(
      std::clamp(y, static_cast<double>(to_.limits.min), static_cast<double>(to_.limits.max))));
}

}  // namespace sixfold::emulator
