// Products of float matrices in memory: c = alpha * a b + beta * c, all row-major, one thread.
#pragma once

#include <cstdint>
#include <span>

#ifdef SIXFOLD_ONEDNN
#include <oneapi/dnnl/dnnl.h>
#endif

namespace sixfold::cpu {

struct Gemm {
  int64_t rows, columns, inner;
  bool transposed = false;  // b is [columns][inner] rather than [inner][columns]
  const float* a;
  int64_t a_step;  // from row to row, in elements
  const float* b;
  int64_t b_step;
  float* c;
  int64_t c_step;
  float alpha = 1.0f, beta = 0.0f;  // beta 0: c need not hold numbers
};

// Our own, for builds without oneDNN.
void sgemm_plain(const Gemm& g);

// Sums of 64 bits, rounded once: those of halves are exact, as the matrix unit's are. b is not transposed.
void sgemm_simd(const Gemm& g);

// Likewise, a point of a convolution whose channels are apart: y[c] is the sum over taps of x[t][c] * w[t *
// channels + c]. A tap outside of the image is null.
void channel_products(std::span<const float* const> x, const float* w, int64_t channels, float* y);

// y = the half nearest to x + bias, as a float, and 65536 with its sign where IEEE has infinity or NaN; no
// bias where that is null. In place too.
void add_to_halves(const float* x, const float* bias, int64_t count, float* y);

inline void sgemm(const Gemm& g) {
#ifdef SIXFOLD_ONEDNN
  dnnl_sgemm('N', g.transposed ? 'T' : 'N', g.rows, g.columns, g.inner, g.alpha, g.a, g.a_step, g.b, g.b_step,
             g.beta, g.c, g.c_step);
#else
  sgemm_plain(g);
#endif
}

}  // namespace sixfold::cpu
