// Real numbers to the integers of a grid, exactly: a quotient of doubles, to the nearest, ties to even.
#pragma once

#include <cstdint>

namespace sixfold::qnn {

struct RunGrid {
  double scale = 1, zero = 0;  // the zero point
  double min = 0, max = 0;     // integers
};

// A NaN becomes the zero point.
void round_run(const float* x, int64_t n, const RunGrid& grid, int32_t* out);

}  // namespace sixfold::qnn
