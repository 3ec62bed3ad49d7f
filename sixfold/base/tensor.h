// Tensor: a shape, a dtype and bytes that somebody keeps alive (a mapped file, or a buffer of its own).
//
// Copying a Tensor shares the bytes. Row-major when strides is empty; otherwise strides are in elements and
// may overlap or be zero, as a storage shared by several parameters has them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "sixfold/base/allocator.h"
#include "sixfold/base/dim.h"
#include "sixfold/base/dtype.h"
#include "sixfold/base/result.h"

namespace sixfold {

struct Tensor {
  DType dtype = DType::none;
  Shape shape;
  Shape strides;                      // empty: row-major
  const std::byte* data = nullptr;    // first element
  std::shared_ptr<const void> owner;  // keeps data alive

  int64_t count() const { return numel(shape); }
  size_t size_bytes() const { return static_cast<size_t>(count()) * size_of(dtype); }
  bool is_contiguous() const { return strides.empty(); }
  template <typename T>
  std::span<const T> values() const {  // row-major tensors only
    assert(is_contiguous() && dtype == dtype_of<T>());
    return {reinterpret_cast<const T*>(data), static_cast<size_t>(count())};
  }

  // A zeroed buffer of its own, 64-byte aligned. *bytes points to it for filling. The allocator must outlive
  // it; without one it is the C library's, and a process that has no memory ends.
  static Result<Tensor> allocate(Allocator& allocator, DType dtype, Shape shape, std::byte** bytes);
  static Tensor allocate(DType dtype, Shape shape, std::byte** bytes);
  static Tensor scalar(double value, DType dtype);
  static Tensor scalar(int64_t value, DType dtype);
  static Tensor of_ints(std::span<const int64_t> values);  // i64, rank 1
};

// Row-major copy of a strided tensor; the tensor itself when it is row-major already.
Tensor to_contiguous(const Tensor& tensor);
Result<Tensor> to_contiguous(Allocator& allocator, const Tensor& tensor);

// A bool must be 0 or 1: other bytes, which a file may hold, would be undefined behaviour where they are
// read.
Status check_bools(std::span<const std::byte> bytes);

// Element i (row-major order) as a double or integer, whatever the dtype.
double element_real(const Tensor& tensor, int64_t i);
int64_t element_integer(const Tensor& tensor, int64_t i);

}  // namespace sixfold
