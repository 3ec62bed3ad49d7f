#include "sixfold/quantize/recycled.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

namespace sixfold {
namespace {

constexpr size_t kLeastBytes = size_t{1} << 16;  // smaller ones are the system's affair
constexpr size_t kMostBytes = size_t{1} << 29;   // kept at a time

class Recycled final : public Allocator {
 public:
  void* allocate(size_t bytes, size_t alignment) override {
    if (bytes >= kLeastBytes) {
      const std::lock_guard lock(mutex_);
      if (const auto found = kept_.find(bytes); found != kept_.end() && !found->second.empty()) {
        void* memory = found->second.back();
        found->second.pop_back();
        kept_bytes_ -= bytes;
        return memory;
      }
    }
    return system_allocator().allocate(bytes, std::max<size_t>(alignment, 64));
  }
  void release(void* memory, size_t bytes) override {
    if (bytes >= kLeastBytes) {
      const std::lock_guard lock(mutex_);
      if (keepers_ > 0 && kept_bytes_ + bytes <= kMostBytes) {
        kept_[bytes].push_back(memory);
        kept_bytes_ += bytes;
        return;
      }
    }
    system_allocator().release(memory, bytes);
  }
  void keep() {
    const std::lock_guard lock(mutex_);
    ++keepers_;
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    if (--keepers_ > 0) return;
    for (const auto& [bytes, blocks] : kept_)
      for (void* memory : blocks) system_allocator().release(memory, bytes);
    kept_.clear();
    kept_bytes_ = 0;
  }

 private:
  std::mutex mutex_;
  std::map<size_t, std::vector<void*>> kept_;  // by size
  size_t kept_bytes_ = 0;
  int keepers_ = 0;
};

Recycled& recycled() {
  static Recycled allocator;
  return allocator;
}

}  // namespace

Allocator& recycled_memory() { return recycled(); }

KeepMemory::KeepMemory() { recycled().keep(); }
KeepMemory::~KeepMemory() { recycled().leave(); }

}  // namespace sixfold
