// The kernels of cpu/quant.h, one file for each kind of CPU.
#pragma once

#include "sixfold/cpu/quant.h"

namespace sixfold::cpu {

// Shifted sums are cut to these: far beyond any output, and small enough for products of 32 (64) bits.
inline constexpr int32_t kLimit8 = 1 << 17, kLimit16 = 1 << 26;

extern const QuantKernels kPlainQuantKernels;
#if defined(__x86_64__)
extern const QuantKernels kAvx2QuantKernels, kVnniQuantKernels;
void vnni_depthwise(const QuantTaps& taps);
#elif defined(__aarch64__)
extern const QuantKernels kNeonQuantKernels, kDotQuantKernels;
bool has_dot_product();
#endif

// Low and high sums as one, with the bias; the sum alone with 8-bit activations. Cut to 256 but for the
// vector unit's rounding, whose sums are small. Wraps as the SIMD kernels do.
inline int32_t join_sums(int32_t low, int32_t high, int32_t bias, bool wide, Rounding rounding) {
  auto sum = static_cast<uint32_t>(low);
  if (wide)
    sum = rounding == Rounding::vector ? static_cast<uint32_t>(high) * 256 + sum
                                       : static_cast<uint32_t>(high) + static_cast<uint32_t>(low >> 8);
  return static_cast<int32_t>(sum + static_cast<uint32_t>(bias));
}

// Stores one result as the output's kind of number.
inline void put_result(std::byte* to, int64_t i, int32_t q, const QuantOutput& out) {
  if (out.rounding == Rounding::none)
    reinterpret_cast<int32_t*>(to)[i] = q;
  else if (out.wide)
    reinterpret_cast<uint16_t*>(to)[i] = static_cast<uint16_t>(q);
  else
    reinterpret_cast<uint8_t*>(to)[i] = static_cast<uint8_t>(q);
}

}  // namespace sixfold::cpu
