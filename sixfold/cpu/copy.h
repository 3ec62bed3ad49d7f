// Strided copies: the one engine behind permute, expand, slice, concat, pad, flip and repeat.
//
// Elements are only moved, so a copy knows their size and not their type. Strides may be zero or negative (on
// the source); the destination's must not overlap.
#pragma once

#include <cstddef>
#include <vector>

#include "sixfold/base/dim.h"
#include "sixfold/base/result.h"
#include "sixfold/cpu/pool.h"

namespace sixfold::cpu {

class StridedCopy {
 public:
  // dst[i . dst_strides] = src[i . src_strides] for every i in shape; strides and offsets in elements.
  static Result<StridedCopy> make(size_t element_size, const Shape& shape, const Shape& src_strides,
                                  const Shape& dst_strides, int64_t src_offset = 0, int64_t dst_offset = 0);

  void run(Pool& pool, const void* src, void* dst) const;

 private:
  struct Axis {
    int64_t size, src, dst;  // strides in bytes
  };
  enum class Inner { none, rows, fill, strided, transpose };
  static constexpr size_t kMaxAxes = 16;

  void choose_inner();
  void split_across();
  void run_items(const std::byte* src, std::byte* dst, int64_t begin, int64_t end) const;
  void run_inner(const std::byte* src, std::byte* dst, int64_t begin, int64_t end) const;

  size_t width_ = 1;         // bytes moved as one
  std::vector<Axis> outer_;  // outermost first
  Axis along_{1, 0, 0};      // the inner axis
  Axis across_{1, 0, 0};     // transpose: the axis that is contiguous in the source
  Inner inner_ = Inner::none;
  int64_t src_offset_ = 0, dst_offset_ = 0;
  int64_t outer_count_ = 1, chunk_ = 1, chunks_ = 1;  // the inner axis is split into chunks of chunk_
  int64_t grain_ = 1;                                 // items (outer index, chunk) per task
};

// A copy of n bytes, on all threads when it is long.
void copy_bytes(Pool& pool, const void* src, void* dst, size_t n);

// The axes of a dense tensor from the one with the largest stride to the one with the smallest.
Shape memory_order(const Shape& shape, const Shape& strides);

// out[c][r] = in[r][c], with steps from one row of each to the next.
void transpose(const float* in, int64_t in_step, int64_t rows, int64_t columns, float* out, int64_t out_step);

}  // namespace sixfold::cpu
