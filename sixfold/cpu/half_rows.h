// Rows of floats that are halves, as the device's units have them (emulator/numbers.h), many at a time. All
// kinds of CPU give the same bits.
#pragma once

#include <cstdint>
#include <span>

namespace sixfold::cpu {

// To the nearest half: of the vector unit, ties away from zero, up to 131008; or IEEE's, ties to the even
// one, with 65536 for infinity.
enum class HalfRounding : uint8_t { vector, ieee };

// slope: a < 0 ? a * b : a. divide: the product with a reciprocal, which is 65504 at the most.
enum class HalfOp : uint8_t { add, subtract, multiply, maximum, minimum, slope, divide };
// step: 1, or 0 for one element that is repeated. Operands may be any floats. Quotients are the vector
// unit's, however rounding is asked for.
void half_pair(HalfOp op, HalfRounding rounding, const float* a, int64_t step_a, const float* b,
               int64_t step_b, float* y, int64_t n);

// Whether all are below `limit` in magnitude.
bool all_below(const float* x, int64_t n, float limit);

// y = max(min, min(max, x)); the bounds are halves.
void clamp_halves(const float* x, float* y, int64_t n, float min, float max);

// y[i] = table[the bits of the half x[i]], of 65,536.
void lookup_halves(const float* table, const float* x, float* y, int64_t n);

// y = x to a half of the vector unit, by way of a float.
void round_halves(const double* x, float* y, int64_t n);

// y[i] = the sum of rows[r] * columns[c][i] * x[r * (number of columns) + c][i], each operation rounded by
// itself, r before c.
struct Blend {
  std::span<const double*const> x, columns;
  std::span<const double> rows;
};
void blend_row(const Blend& blend, double* y, int64_t n);

// y = a + f * (b - a), a where f is 0: each step in the vector unit's own floats of 16 bits (cpu/qhalf.h).
// step_f: 1, or 0 for one that is repeated.
void blend_own_row(const double* a, const double* b, const double* f, int64_t step_f, double* y, int64_t n);

}  // namespace sixfold::cpu
