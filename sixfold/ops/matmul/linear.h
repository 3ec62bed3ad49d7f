// Parts of linear that convolution shares.
#pragma once

#include "sixfold/cpu/kernel.h"
#include "sixfold/cpu/vector_math.h"

namespace sixfold::cpu {

// Up to this many rows a product is bound by reading the weights, once, from memory.
inline constexpr int64_t kSkinnyRows = 4;

struct SkinnyLinear {
  int64_t rows, inner, columns;
  bool bias;
  UnaryF32 activation;
};
// y[rows, columns] = x[rows, inner] w[columns, inner]^T (+ b): operands x, w, b. Weights are used where they
// are.
KernelResult make_skinny_linear(const SkinnyLinear& shape);

}  // namespace sixfold::cpu
