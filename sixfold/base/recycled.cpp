#include "sixfold/base/recycled.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

namespace sixfold {
namespace {

#ifdef SIXFOLD_SANITIZED
constexpr size_t kLeastBytes = SIZE_MAX;  // sanitizers watch the ends of the system's blocks alone
#else
constexpr size_t kLeastBytes = size_t{1} << 14;  // smaller blocks are the system's affair
#endif
constexpr size_t kUnit = 64;                    // sizes and addresses are multiples of it
constexpr size_t kSlabBytes = size_t{1} << 26;  // taken at a time; untouched pages cost nothing
constexpr size_t kMostBytes = size_t{1} << 29;  // kept at a time

// Slabs of the system's memory, cut into blocks. A block is taken from the smallest free part that holds it;
// free neighbours become one part.
class Recycled final : public Allocator {
 public:
  void* allocate(size_t bytes, size_t alignment) override {
    if (bytes < kLeastBytes || bytes > SIZE_MAX / 2 || alignment > kUnit)
      return system_allocator().allocate(bytes, std::max(alignment, kUnit));
    const size_t size = rounded_up(bytes);
    const std::lock_guard lock(mutex_);
    auto part = by_size_.lower_bound({size, nullptr});
    if (part == by_size_.end()) {
      const size_t slab_bytes = std::max(size, kSlabBytes);
      auto* slab = static_cast<std::byte*>(system_allocator().allocate(slab_bytes, kUnit));
      if (!slab) return nullptr;
      slabs_[slab] = slab_bytes;
      add_free(slab, slab_bytes);
      part = by_size_.lower_bound({size, nullptr});
    }
    const auto [free_bytes, memory] = *part;
    remove_free(memory, free_bytes);
    if (free_bytes > size) add_free(memory + size, free_bytes - size);
    return memory;
  }

  void release(void* memory, size_t bytes) override {
    auto* begin = static_cast<std::byte*>(memory);
    const std::lock_guard lock(mutex_);
    auto slab = slabs_.upper_bound(begin);
    if (slab == slabs_.begin() || begin >= (--slab)->first + slab->second)
      return system_allocator().release(memory, bytes);
    size_t size = rounded_up(bytes);
    if (const auto next = free_.find(begin + size);
        next != free_.end() && next->first < slab->first + slab->second) {
      size += next->second;
      remove_free(next->first, next->second);
    }
    if (auto before = free_.lower_bound(begin); before != free_.begin() && begin != slab->first) {
      --before;
      if (before->first + before->second == begin) {
        begin = before->first;
        size += before->second;
        remove_free(before->first, before->second);
      }
    }
    add_free(begin, size);
    if (size == slab->second && (keepers_ == 0 || free_bytes_ > kMostBytes)) give_back(slab);
  }

  void keep() {
    const std::lock_guard lock(mutex_);
    ++keepers_;
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    if (--keepers_ > 0) return;
    for (auto slab = slabs_.begin(); slab != slabs_.end();) {
      const auto part = free_.find(slab->first);
      const auto now = slab++;
      if (part != free_.end() && part->second == now->second) give_back(now);
    }
  }

 private:
  using Slabs = std::map<std::byte*, size_t>;
  static size_t rounded_up(size_t bytes) { return (bytes + kUnit - 1) / kUnit * kUnit; }
  void add_free(std::byte* memory, size_t bytes) {
    free_[memory] = bytes;
    by_size_.insert({bytes, memory});
    free_bytes_ += bytes;
  }
  void remove_free(std::byte* memory, size_t bytes) {
    free_.erase(memory);
    by_size_.erase({bytes, memory});
    free_bytes_ -= bytes;
  }
  void give_back(Slabs::iterator slab) {
    remove_free(slab->first, slab->second);
    system_allocator().release(slab->first, slab->second);
    slabs_.erase(slab);
  }

  std::mutex mutex_;
  Slabs slabs_;
  std::map<std::byte*, size_t> free_;                // parts by address
  std::set<std::pair<size_t, std::byte*>> by_size_;  // the same
  size_t free_bytes_ = 0;
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
