// What the rules of data movement for the NPU share.
#pragma once

#include "sixfold/rewrite/htp.h"

namespace sixfold::htp {

// More axes than the device's tensors have are merged around the one that matters: [before, n, after].
constexpr int64_t kMaxRank = 5;
inline int64_t max_rank(DType d) { return is_float(d) ? kMaxRank : kMaxRank - 1; }  // of integers one fewer
inline Dims around(const Dims& dims, int64_t axis) {
  const auto a = dims.begin() + axis;
  return {numel(Dims(dims.begin(), a)), *a, numel(Dims(a + 1, dims.end()))};
}
// StridedSlice, Gather and the scatter ops have no 8- or 16-bit integers and no bools; 32 bits do the same.
inline bool is_narrow(DType d) {
  return d == DType::boolean || d == DType::u8 || d == DType::i8 || d == DType::i16;
}

}  // namespace sixfold::htp
