#include <algorithm>
#include <cmath>
#include <numeric>

#include "sixfold/ops/linalg/functions.h"

namespace sixfold::linalg {

int64_t cholesky(const Matrix& a) {
  const int64_t n = a.rows;
  int64_t failed = 0;
  for (int64_t j = 0; j < n && failed == 0; ++j) {
    double pivot = a(j, j);
    for (int64_t k = 0; k < j; ++k) pivot -= a(j, k) * a(j, k);
    if (!(pivot > 0)) failed = j + 1;
    if (failed != 0) break;
    a(j, j) = std::sqrt(pivot);
    for (int64_t i = j + 1; i < n; ++i) {
      double x = a(i, j);
      for (int64_t k = 0; k < j; ++k) x -= a(i, k) * a(j, k);
      a(i, j) = x / a(j, j);
    }
  }
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = i + 1; j < n; ++j) a(i, j) = 0;
  return failed;
}

int64_t lu(const Matrix& a, Pivoting& p) {
  std::iota(p.order, p.order + a.rows, int64_t{0});
  p.sign = 1;
  int64_t singular = 0;
  for (int64_t k = 0; k < std::min(a.rows, a.columns); ++k) {
    int64_t best = k;
    for (int64_t i = k + 1; i < a.rows; ++i)
      if (std::fabs(a(i, k)) > std::fabs(a(best, k))) best = i;
    p.pivots[k] = static_cast<int32_t>(best + 1);
    if (best != k) {
      std::swap_ranges(&a(k, 0), &a(k, 0) + a.columns, &a(best, 0));
      std::swap(p.order[k], p.order[best]);
      p.sign = -p.sign;
    }
    if (a(k, k) == 0) {
      if (singular == 0) singular = k + 1;
      continue;
    }
    for (int64_t i = k + 1; i < a.rows; ++i) {
      const double factor = a(i, k) /= a(k, k);
      if (factor == 0) continue;
      for (int64_t j = k + 1; j < a.columns; ++j) a(i, j) -= factor * a(k, j);
    }
  }
  return singular;
}

void solve_triangular(const Matrix& a, const Matrix& b, bool upper, bool unit_diagonal) {
  const int64_t n = a.rows;
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = upper ? n - 1 - step : step;
    for (int64_t c = 0; c < b.columns; ++c) {
      double x = b(i, c);
      for (int64_t j = upper ? i + 1 : 0; j < (upper ? n : i); ++j) x -= a(i, j) * b(j, c);
      b(i, c) = unit_diagonal ? x : x / a(i, i);
    }
  }
}

namespace {

// Columns from `first` on, times I - tau v v^T, where v is 1 at row k and column k of `vectors` below it.
void reflect(const Matrix& vectors, int64_t k, double tau, const Matrix& x, int64_t first) {
  for (int64_t j = first; j < x.columns; ++j) {
    double dot = x(k, j);
    for (int64_t i = k + 1; i < x.rows; ++i) dot += vectors(i, k) * x(i, j);
    dot *= tau;
    x(k, j) -= dot;
    for (int64_t i = k + 1; i < x.rows; ++i) x(i, j) -= dot * vectors(i, k);
  }
}

}  // namespace

void geqrf(const Matrix& a, double* tau) {
  for (int64_t k = 0; k < std::min(a.rows, a.columns); ++k) {
    double below = 0;
    for (int64_t i = k + 1; i < a.rows; ++i) below = std::hypot(below, a(i, k));
    tau[k] = 0;
    if (below == 0) continue;  // nothing to reflect away
    const double alpha = a(k, k), beta = -std::copysign(std::hypot(alpha, below), alpha);
    tau[k] = (beta - alpha) / beta;
    for (int64_t i = k + 1; i < a.rows; ++i) a(i, k) /= alpha - beta;
    reflect(a, k, tau[k], a, k + 1);
    a(k, k) = beta;
  }
}

void householder_product(const Matrix& a, const double* tau, int64_t reflections, const Matrix& q) {
  for (int64_t i = 0; i < q.rows; ++i)
    for (int64_t j = 0; j < q.columns; ++j) q(i, j) = i == j;
  for (int64_t k = reflections; k-- > 0;) reflect(a, k, tau[k], q, 0);
}

void svd(const Matrix& a, double* s, const Matrix& v) {
  const int64_t n = a.columns;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) v(i, j) = i == j;
  const auto dot = [&](int64_t p, int64_t q) {
    double sum = 0;
    for (int64_t i = 0; i < a.rows; ++i) sum += a(i, p) * a(i, q);
    return sum;
  };
  const auto rotate = [](const Matrix& m, int64_t p, int64_t q, double cosine, double sine) {
    for (int64_t i = 0; i < m.rows; ++i) {
      const double x = m(i, p), y = m(i, q);
      m(i, p) = cosine * x - sine * y;
      m(i, q) = sine * x + cosine * y;
    }
  };
  for (int sweep = 0; sweep < 60; ++sweep) {
    bool turned = false;
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        const double pp = dot(p, p), qq = dot(q, q), pq = dot(p, q);
        if (!(std::fabs(pq) > 1e-15 * std::sqrt(pp * qq))) continue;
        turned = true;
        const double slope = (qq - pp) / (2 * pq);
        const double t = std::copysign(1.0, slope) / (std::fabs(slope) + std::hypot(1.0, slope));
        const double cosine = 1 / std::hypot(1.0, t);
        rotate(a, p, q, cosine, t * cosine);
        rotate(v, p, q, cosine, t * cosine);
      }
    }
    if (!turned) break;
  }
  for (int64_t j = 0; j < n; ++j) s[j] = std::sqrt(dot(j, j));
  // Falling, by exchanges; then the columns of unit length.
  for (int64_t j = 0; j < n; ++j) {
    const int64_t best = std::max_element(s + j, s + n) - s;
    if (best == j) continue;
    std::swap(s[j], s[best]);
    for (int64_t i = 0; i < a.rows; ++i) std::swap(a(i, j), a(i, best));
    for (int64_t i = 0; i < n; ++i) std::swap(v(i, j), v(i, best));
  }
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = 0; i < a.rows && s[j] > 0; ++i) a(i, j) /= s[j];
}

void eigh(const Matrix& a, double* values, const Matrix& v) {
  const int64_t n = a.rows;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) v(i, j) = i == j;
  for (int sweep = 0; sweep < 60; ++sweep) {
    double off = 0, whole = 0;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) (i == j ? whole : off) += a(i, j) * a(i, j);
    if (!(off > 1e-32 * (whole + off))) break;
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        if (a(p, q) == 0) continue;
        const double slope = (a(q, q) - a(p, p)) / (2 * a(p, q));
        const double t = std::copysign(1.0, slope) / (std::fabs(slope) + std::hypot(1.0, slope));
        const double cosine = 1 / std::hypot(1.0, t), sine = t * cosine;
        for (int64_t i = 0; i < n; ++i) {
          const double x = a(i, p), y = a(i, q);
          a(i, p) = cosine * x - sine * y;
          a(i, q) = sine * x + cosine * y;
        }
        for (int64_t i = 0; i < n; ++i) {
          const double x = a(p, i), y = a(q, i);
          a(p, i) = cosine * x - sine * y;
          a(q, i) = sine * x + cosine * y;
        }
        for (int64_t i = 0; i < n; ++i) {
          const double x = v(i, p), y = v(i, q);
          v(i, p) = cosine * x - sine * y;
          v(i, q) = sine * x + cosine * y;
        }
      }
    }
  }
  for (int64_t i = 0; i < n; ++i) values[i] = a(i, i);
  for (int64_t j = 0; j < n; ++j) {
    const int64_t best = std::min_element(values + j, values + n) - values;
    if (best == j) continue;
    std::swap(values[j], values[best]);
    for (int64_t i = 0; i < n; ++i) std::swap(v(i, j), v(i, best));
  }
}

namespace {

void multiply(const Matrix& a, const Matrix& b, const Matrix& out) {
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < b.columns; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < a.columns; ++k) sum += a(i, k) * b(k, j);
      out(i, j) = sum;
    }
}

}  // namespace

void exponential(const Matrix& a, const Matrix& out, double* scratch) {
  const int64_t n = a.rows;
  const Matrix scaled{scratch, n, n}, term{scratch + n * n, n, n}, next{scratch + 2 * n * n, n, n};
  double norm = 0;
  for (int64_t i = 0; i < n; ++i) {
    double row = 0;
    for (int64_t j = 0; j < n; ++j) row += std::fabs(a(i, j));
    norm = std::max(norm, row);
  }
  int halvings = 0;
  if (std::isfinite(norm))
    for (; norm > 0.5 && halvings < 1100; norm /= 2) ++halvings;
  for (int64_t i = 0; i < n * n; ++i) scaled.data[i] = std::ldexp(a.data[i], -halvings);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) out(i, j) = term(i, j) = i == j;
  for (int k = 1; k < 20; ++k) {
    multiply(term, scaled, next);
    for (int64_t i = 0; i < n * n; ++i) out.data[i] += term.data[i] = next.data[i] / k;
  }
  for (int i = 0; i < halvings; ++i) {
    multiply(out, out, next);
    std::copy_n(next.data, n * n, out.data);
  }
}

}  // namespace sixfold::linalg
