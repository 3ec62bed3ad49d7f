#include "sixfold/execute/allocator.h"

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

Allocator& system_allocator() {
  static System allocator;
  return allocator;
}

}  // namespace sixfold
