#include "sixfold/base/allocator.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

namespace sixfold {
namespace {

// Large blocks are pages of their own, zero until they are touched.
constexpr size_t kMappedBytes = size_t{1} << 20;
constexpr size_t kPageBytes = 4096;

class System final : public Allocator {
 public:
  void* allocate(size_t bytes, size_t alignment) override {
    if (bytes > SIZE_MAX / 2 || alignment > kPageBytes) return nullptr;
    if (bytes >= kMappedBytes) {
      void* memory =
          ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      return memory == MAP_FAILED ? nullptr : memory;
    }
    const size_t padded = (bytes + alignment - 1) / alignment * alignment;
    void* memory = std::aligned_alloc(alignment, padded);
    if (memory) std::memset(memory, 0, padded);
    return memory;
  }
  void release(void* memory, size_t bytes) override {
    if (bytes >= kMappedBytes)
      ::munmap(memory, bytes);
    else
      std::free(memory);
  }
  bool gives_zeros() const override { return true; }
};

}  // namespace

Result<OwnedBlock> OwnedBlock::take(Allocator& allocator, size_t bytes, std::string_view what) {
  OwnedBlock out;
  out.allocator_ = &allocator;
  out.bytes_ = bytes < 64 ? 64 : bytes;
  out.data_ = static_cast<std::byte*>(allocator.allocate(out.bytes_, 64));
  if (!out.data_)
    return fail(Code::OutOfMemory, what, " needs ", out.bytes_, " bytes, and the allocator has ",
                allocator.available_bytes(64));
  return out;
}

size_t ArenaAllocator::available_bytes(size_t alignment) const {
  const auto next = reinterpret_cast<uintptr_t>(memory_.data()) + used_;
  const size_t padding = (alignment - next % alignment) % alignment, left = memory_.size() - used_;
  return padding > left ? 0 : left - padding;
}

void* ArenaAllocator::allocate(size_t bytes, size_t alignment) {
  const size_t left = available_bytes(alignment);
  if (bytes > left) return nullptr;
  used_ = memory_.size() - left + bytes;
  ++blocks_;
  return memory_.data() + used_ - bytes;
}

void ArenaAllocator::release(void* memory, size_t bytes) {
  // The last one is free at once, so that what a kernel needs only while it is made is not lost.
  if (static_cast<std::byte*>(memory) + bytes == memory_.data() + used_) used_ -= bytes;
  if (--blocks_ == 0) used_ = 0;
}

Allocator& system_allocator() {
  static System allocator;
  return allocator;
}

}  // namespace sixfold
