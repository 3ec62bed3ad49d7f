// Products of float matrices in memory: c = alpha * a b + beta * c, all row-major, one thread.
#pragma once

#include <cstdint>

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
void sgemm_simd(const Gemm& g);

inline void sgemm(const Gemm& g) {
#ifdef SIXFOLD_ONEDNN
  dnnl_sgemm('N', g.transposed ? 'T' : 'N', g.rows, g.columns, g.inner, g.alpha, g.a, g.a_step, g.b, g.b_step,
             g.beta, g.c, g.c_step);
#else
  sgemm_simd(g);
#endif
}

}  // namespace sixfold::cpu
