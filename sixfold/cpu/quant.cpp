#include "sixfold/cpu/quant.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "hwy/targets.h"
#include "sixfold/cpu/quant_kernels.h"

namespace sixfold::cpu {

bool set_factor(QuantChannels& channels, int64_t i, Rounding rounding, double factor, int reach) {
  channels.multiplier[i] = channels.left[i] = channels.right[i] = 0;
  if (rounding == Rounding::none) return true;
  if (!(factor > 0x1p-45 && factor < 0x1p30)) return false;
  if (rounding == Rounding::matrix16) factor *= 256;
  int e = 0;
  const double f = std::frexp(factor, &e);
  const int bits = rounding == Rounding::matrix8 ? 12 : rounding == Rounding::matrix16 ? 22 : 15;
  channels.multiplier[i] = static_cast<int32_t>(std::floor(std::ldexp(f, bits) + 0.5));
  if (rounding == Rounding::vector) {
    if (channels.multiplier[i] == 32768) {  // 16 bits with a sign do not hold it
      channels.multiplier[i] = 16384;
      ++e;
    }
    // sum * multiplier * 2^(e - 15): a left shift of the sum where e is above 14.
    channels.left[i] = std::max(0, e - 14);
    channels.right[i] = std::max(1, bits - e);
    return true;
  }
  int shift = -e - (rounding == Rounding::matrix8 ? 3 : 7);
  if (rounding == Rounding::matrix8 && reach > 0) {
    int part = 0;
    std::frexp(factor / reach, &part);
    shift = std::max(std::min(shift, 1), -12 - part);
    channels.multiplier[i] = static_cast<int32_t>(std::floor(std::ldexp(factor, shift + 15) + 0.5));
  }
  channels.left[i] = std::clamp(-shift, 0, 31);
  channels.right[i] = std::clamp(shift, 0, 31);
  return true;
}

int32_t fold_bias(Rounding rounding, int64_t bias, int64_t zero_point, int64_t sum) {
  int64_t total = bias - zero_point * sum;
  if (rounding == Rounding::matrix16) {
    const int64_t part = zero_point * sum;
    total = bias / 256 - ((part + 128) >> 8);
  }
  return static_cast<int32_t>(std::clamp<int64_t>(total, INT32_MIN, INT32_MAX));
}

int32_t requantize(int32_t sum, const QuantChannels& channels, int64_t i, const QuantOutput& out) {
  const int32_t left = channels.left[i], right = channels.right[i];
  const int64_t f = channels.multiplier[i];
  int64_t q = 0;
  switch (out.rounding) {
    case Rounding::none:
      return sum;
    case Rounding::vector: {
      const auto shifted = static_cast<int32_t>(static_cast<uint32_t>(sum) << left);
      const int64_t a = std::max(shifted, -INT32_MAX);
      q = (a * f + (right > 0 ? int64_t{1} << (right - 1) : 0)) >> right;
      break;
    }
    case Rounding::matrix8:
    case Rounding::matrix16: {
      const bool wide = out.rounding == Rounding::matrix16;
      const int64_t limit = wide ? kLimit16 : kLimit8, most = limit >> left;
      int64_t t = sum;
      if (out.lefts) t = std::clamp<int64_t>(t, left ? -most : INT32_MIN, left ? most : INT32_MAX) << left;
      t = std::clamp<int64_t>(t >> right, -limit, limit);
      q = wide ? ((2 * t + 1) * f + (int64_t{1} << 29)) >> 30 : ((2 * t + 1) * f + (1 << 15)) >> 16;
      break;
    }
  }
  return static_cast<int32_t>(std::clamp<int64_t>(q + out.zero_point, out.min, out.max));
}

static std::span<const QuantKernels* const> available() {
  static const QuantKernels* kernels[4];
  static const size_t count = [] {
    size_t n = 0;
    kernels[n++] = &kPlainQuantKernels;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) kernels[n++] = &kAvx2QuantKernels;
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni"))
      kernels[n++] = &kVnniQuantKernels;
#elif defined(__aarch64__)
    kernels[n++] = &kNeonQuantKernels;
    if (has_dot_product()) kernels[n++] = &kDotQuantKernels;
#endif
    return n;
  }();
  return {kernels, count};
}

std::span<const QuantKernels* const> all_quant_kernels() { return available(); }

const QuantKernels& quant_kernels() {
  static const QuantKernels* const chosen = [] {
    const auto all = available();
    if (const char* name = std::getenv("SIXFOLD_QUANT_KERNELS"))
      for (const QuantKernels* k : all)
        if (std::strcmp(k->name, name) == 0) {
#if defined(__x86_64__)
          // Highway's lower numbers are for better CPUs.
          if (k != all.back()) hwy::DisableTargets((HWY_AVX2 - 1) | (k == all.front() ? HWY_AVX2 : 0));
#endif
          return k;
        }
    return all.back();
  }();
  return *chosen;
}

}  // namespace sixfold::cpu
