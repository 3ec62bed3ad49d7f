// A batch norm with known statistics over finished rows of a convolution, while they are in the cache.
#pragma once

#include <cstddef>

namespace sixfold::cpu {

// x[i] = x[i] * scale[i] + shift[i] (+ residual[i], unless it is null)
void scale_row_f32(float* x, const float* scale, const float* shift, const float* residual, size_t n);

}  // namespace sixfold::cpu
