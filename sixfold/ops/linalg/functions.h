// Dense matrices in double, row-major, written for clarity and small sizes.
//
// The functions of the canonical op, [.., M, N] and K = min(M, N) everywhere; flags that are absent are
// false:
//   cholesky(a) -> l, info: i32; check: an error instead of info
//   lu(a) -> l and u in one, pivots: i32 [K], order: i64 [M], sign, info: i32
//   solve(a, b) -> x; check: an error for a singular matrix
//   solve_triangular(a, b) -> x; upper, unit: which triangle, and whether its diagonal counts as ones
//   geqrf(a) -> vectors and r, tau [K]          householder_product(vectors, tau) -> q
//   svd(a) -> u [M, K], s [K], v^T [K, N]       eigh(a) -> values [N], vectors       exp(a)
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace sixfold::linalg {

struct Matrix {
  double* data;
  int64_t rows, columns;

  double& operator()(int64_t i, int64_t j) const { return data[i * columns + j]; }
  int64_t count() const { return rows * columns; }
};

// The lower Cholesky factor in place, zeros above it. 0, or the order of the first minor that is not
// positive.
int64_t cholesky(const Matrix& a);

// Row i of the factored matrix was row order[i]; pivots are LAPACK's: row i changed places with row pivots[i]
// - 1.
struct Pivoting {
  int32_t* pivots;  // min(rows, columns)
  int64_t* order;   // rows
  double sign;      // of the permutation
};
// L (unit diagonal) and U in place, rows exchanged for the largest pivot. 0, or the first zero pivot, from 1.
int64_t lu(const Matrix& a, Pivoting& pivoting);

// x with a x = b in place of b, by the triangle of a.
void solve_triangular(const Matrix& a, const Matrix& b, bool upper, bool unit_diagonal);

// R in and above the diagonal, the vectors of the reflections below, their factors in tau.
void geqrf(const Matrix& a, double* tau);
// The product of reflections, as many columns as `a` has.
void householder_product(const Matrix& a, const double* tau, int64_t reflections, const Matrix& q);

// a = u diag(s) v^T, s falling; one-sided Jacobi. Of shapes [m, n] with m >= n: u in place of a, v [n, n].
void svd(const Matrix& a, double* s, const Matrix& v);
// Eigenvalues of a symmetric matrix, rising, in `values`; its eigenvectors are the columns of v. Jacobi;
// spoils a.
void eigh(const Matrix& a, double* values, const Matrix& v);

// e^a: scaling, Taylor, squaring. Three matrices of scratch.
void exponential(const Matrix& a, const Matrix& out, double* scratch);

}  // namespace sixfold::linalg
