// Floats as bfloat16, the nearest, ties to even.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sixfold::cpu {

void to_bf16(const float* from, uint16_t* to, size_t n);

}  // namespace sixfold::cpu
