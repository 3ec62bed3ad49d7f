// Rows of attention scores: SIMD, compiled for several instruction sets (cpu_rows.cpp).
#pragma once

#include <cstdint>

namespace sixfold::cpu::attention {

// out = sum over s of p[s] * v[s], v: [count][width]; added to out when `add`
void mix_row(const float* p, const float* v, int64_t count, int64_t width, bool add, float* out);
// scores of keys that the mask forbids become -inf
void mask_row(float* scores, const bool* allowed, int64_t count);
// scores += bias
void add_row(float* scores, const float* bias, int64_t count);

}  // namespace sixfold::cpu::attention
