// What the emulator's products of matrices share.
#pragma once

#include <vector>

#include "sixfold/emulator/kernel.h"

namespace sixfold::emulator {

// y[b] = x[b] w[b], [rows, inner] times [inner, columns]. Each batch names its matrices, since they
// broadcast.
struct MatrixShape {
  int64_t rows = 1, inner = 1, columns = 1;
  bool transposed_x = false, transposed_w = false;
  struct Batch {
    int64_t x, w;  // indices of matrices
  };
  std::vector<Batch> batches;

  uint64_t macs() const {
    return static_cast<uint64_t>(rows * inner) * static_cast<uint64_t>(columns) * batches.size();
  }
};
// FullyConnected or MatMul. Unsupported when shapes do not go together. One matrix of weights for all batches
// makes one batch of all rows.
Result<MatrixShape> read_matrices(const OpView& op);

Result<Step> prepare_float_matrices(const OpView& op, const MatrixShape& shape, Prepare& prepare);
// Fixed-point products that Qualcomm's library computes in floats.
bool takes_reals(const OpView& op, const MatrixShape& shape);
Result<Step> prepare_real_matrices(const OpView& op, const MatrixShape& shape, Prepare& prepare);
// Weights that are packed when the op runs: activations, and all 16-bit ones.
Result<Step> prepare_packed_late(const OpView& op, const MatrixShape& shape, Prepare& prepare);

}  // namespace sixfold::emulator
