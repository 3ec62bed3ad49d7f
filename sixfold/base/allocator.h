// Where a method's memory comes from: planned buffers, results that nobody planned, scratch, packed weights,
// constants that are computed at load. What is sized by a model goes through here, so that a caller can
// count, place and refuse it.
//
// Small things of our own (vectors of values and instructions, tables of a kernel, messages) use operator
// new, which in a build without exceptions ends the process when the system has no memory at all.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "sixfold/base/result.h"

namespace sixfold {

class Allocator {
 public:
  virtual ~Allocator() = default;
  // Null when there is no memory. Alignment is a power of two.
  virtual void* allocate(size_t bytes, size_t alignment) = 0;
  virtual void release(void* memory, size_t bytes) = 0;
  // For messages: how large a block of that alignment it could still give, where it knows.
  virtual size_t available_bytes(size_t /*alignment*/) const { return 0; }
  // Whether what it gives reads as zeros: then a large arena costs only the pages that are used.
  virtual bool gives_zeros() const { return false; }
  // Told of constants that were packed and are not read again: pages of a mapped file need not stay.
  virtual void forget(std::span<const std::byte> /*constants*/) {}
};

// The system's. Lives as long as the process.
Allocator& system_allocator();

// Memory of an allocator, given back once.
class OwnedBlock {
 public:
  OwnedBlock() = default;
  // Aligned to 64. Without memory an error that says for what, with both sizes.
  static Result<OwnedBlock> take(Allocator& allocator, size_t bytes, std::string_view what);
  OwnedBlock(OwnedBlock&& other) noexcept { swap(other); }
  OwnedBlock& operator=(OwnedBlock&& other) noexcept {
    swap(other);
    return *this;
  }
  ~OwnedBlock() {
    if (data_) allocator_->release(data_, bytes_);
  }

  std::byte* data() const { return data_; }
  void fill_with_zeros() const {
    if (data_ && !allocator_->gives_zeros()) std::memset(data_, 0, bytes_);
  }
  size_t size_bytes() const { return data_ ? bytes_ : 0; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  void swap(OwnedBlock& other) {
    std::swap(allocator_, other.allocator_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
  Allocator* allocator_ = nullptr;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

// Takes from memory that the caller has, one block after the other; freed when all are back. For devices
// without a heap, and for tests that grow it step by step.
class ArenaAllocator final : public Allocator {
 public:
  explicit ArenaAllocator(std::span<std::byte> memory) : memory_(memory) {}
  void* allocate(size_t bytes, size_t alignment) override;
  void release(void* memory, size_t bytes) override;
  size_t available_bytes(size_t alignment) const override;

 private:
  std::span<std::byte> memory_;
  size_t used_ = 0, blocks_ = 0;
};

}  // namespace sixfold
