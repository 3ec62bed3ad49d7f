// Tensors of the emulator for the loops of sixfold/cpu: all are dense and row-major.
#pragma once

#include "sixfold/cpu/broadcast.h"
#include "sixfold/emulator/op_view.h"

namespace sixfold::emulator {

inline cpu::TensorDesc describe(const TensorDef& t) {
  cpu::TensorDesc out;
  out.dtype = qnn::storage_of(t.dtype);
  out.shape.assign(t.dims.begin(), t.dims.end());
  out.strides.assign(t.rank(), 1);
  for (size_t d = t.rank(); d-- > 1;) out.strides[d - 1] = out.strides[d] * out.shape[d];
  return out;
}

// Whether `from` broadcasts to `to` by numpy's rules.
inline bool broadcasts(const TensorDef& from, const TensorDef& to) {
  if (from.rank() > to.rank()) return false;
  for (size_t i = 0; i < from.rank(); ++i) {
    const uint32_t d = from.dims[from.rank() - 1 - i];
    if (d != 1 && d != to.dims[to.rank() - 1 - i]) return false;
  }
  return true;
}

// Products of dims before, at and after an axis.
struct AroundAxis {
  int64_t before = 1, extent = 1, after = 1;
  AroundAxis(std::span<const uint32_t> dims, size_t axis) {
    for (size_t d = 0; d < dims.size(); ++d) (d < axis ? before : d == axis ? extent : after) *= dims[d];
  }
};

}  // namespace sixfold::emulator
