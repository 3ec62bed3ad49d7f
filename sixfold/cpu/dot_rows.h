// A matrix times a vector, for products too thin for sgemm.
#pragma once

#include <cstdint>

namespace sixfold::cpu {

// out[i] = scale * (q . k[i]), k: [count][width] row-major
void dot_rows(const float* q, const float* k, int64_t count, int64_t width, float scale, float* out);

}  // namespace sixfold::cpu
