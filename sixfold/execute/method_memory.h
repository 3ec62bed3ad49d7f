// The allocator of a method: the caller's, and the pages of the program's file.
#pragma once

#include "sixfold/base/allocator.h"
#include "sixfold/load/program.h"

namespace sixfold {

class MethodMemory final : public Allocator {
 public:
  MethodMemory(Allocator& from, const Program& program) : from_(from), program_(program) {}
  void* allocate(size_t bytes, size_t alignment) override { return from_.allocate(bytes, alignment); }
  void release(void* memory, size_t bytes) override { from_.release(memory, bytes); }
  size_t available_bytes(size_t alignment) const override { return from_.available_bytes(alignment); }
  bool gives_zeros() const override { return from_.gives_zeros(); }
  void forget(std::span<const std::byte> constants) override { program_.forget(constants); }

 private:
  Allocator& from_;
  const Program& program_;
};

}  // namespace sixfold
