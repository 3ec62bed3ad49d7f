// Index operands as checked positions.
//
// Indices are data: they are read, checked and made non-negative before a kernel touches what they point at.
#pragma once

#include <cstdint>
#include <vector>

#include "sixfold/cpu/kernel.h"

namespace sixfold::cpu {

// Several index tensors broadcast against each other: out[n] = sum over k of index_k[n] * stride_k.
class Positions {
 public:
  struct Index {
    const TensorDesc& desc;
    int64_t extent, stride;
  };
  static Result<Positions> make(const std::vector<Index>& indices);

  int64_t count() const { return count_; }
  size_t scratch_bytes() const { return static_cast<size_t>(count_) * sizeof(int64_t); }
  // data[k]: elements of index k; out: count() positions. The error names the index and the extent.
  Status read(const void* const* data, int64_t* out) const;

 private:
  static constexpr size_t kMaxAxes = 8;
  struct Part {
    bool wide;   // i64, not i32
    bool whole;  // of the joint shape: no broadcasting
    int64_t extent, stride;
    Shape strides;  // in the joint shape
  };
  std::vector<Part> parts_;
  Shape shape_;
  int64_t count_ = 1;
};

}  // namespace sixfold::cpu
