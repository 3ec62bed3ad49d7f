// Random numbers by a hash of a counter (the finalizer of splitmix64): any element can be drawn alone, so
// threads need no order.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace sixfold::cpu {

inline uint64_t mix_bits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
inline uint64_t draw_bits(uint64_t seed, uint64_t i) {
  return mix_bits(mix_bits(seed + 0x9e3779b97f4a7c15u) + i * 0x9e3779b97f4a7c15u);
}

inline double uniform_of(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }  // [0, 1)
inline double normal_of(uint64_t bits, uint64_t more) {                                        // Box-Muller
  const double u = 1.0 - uniform_of(bits);  // (0, 1]: its logarithm is finite
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * uniform_of(more));
}

}  // namespace sixfold::cpu
