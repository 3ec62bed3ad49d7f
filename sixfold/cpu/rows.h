// Float reductions and normalizations of rows and columns: SIMD, the same bits whatever the number of
// threads.
//
// Sums run in several float accumulators over short blocks whose totals are added in double, so their error
// stays near one rounding however long the row is. All n may be 0.
#pragma once

#include <cstdint>

namespace sixfold::cpu {

struct Moments {
  double first = 0;   // sum of x - shift
  double second = 0;  // sum of (x - shift)^2
};

double sum_row(const float* x, int64_t n);
double sum_squares_row(const float* x, int64_t n);
Moments moments_row(const float* x, int64_t n, float shift);
float max_row(const float* x, int64_t n);  // -inf for n 0; NaN wins
float min_row(const float* x, int64_t n);
int64_t find_row(const float* x, int64_t n,
                 float value);  // first place of value (or of NaN if value is NaN); n: none

// Columns of x[rows][stride], the first `width` of them, added to what the accumulators hold.
inline constexpr int64_t kStrip = 128;  // the largest width
void sum_columns(const float* x, int64_t rows, int64_t stride, int64_t width, double* sums);
void moments_columns(const float* x, int64_t rows, int64_t stride, int64_t width, const float* shift,
                     double* first, double* second);
void max_columns(const float* x, int64_t rows, int64_t stride, int64_t width, float* best);
void min_columns(const float* x, int64_t rows, int64_t stride, int64_t width, float* best);
// Which row holds each column's extreme: the first of equals, a NaN before all. rows > 0.
void argmax_columns(const float* x, int64_t rows, int64_t stride, int64_t width, int64_t* at);
void argmin_columns(const float* x, int64_t rows, int64_t stride, int64_t width, int64_t* at);

// y = (x - center) * scale + shift. y may be x, here and below.
void affine_row(const float* x, float* y, int64_t n, float center, float scale, float shift);
// y = x * scale[i] + shift[i]
void affine_each(const float* x, float* y, int64_t n, const float* scale, const float* shift);
// y = (x - mean) * factor * weight[i] + bias[i]; weight and bias may be null
void normalize_row(const float* x, float* y, int64_t n, float mean, float factor, const float* weight,
                   const float* bias);

}  // namespace sixfold::cpu
