// The constant bytes of a context: weights as kernels read them, each once however many graphs and ops use
// it.
#pragma once

#include <deque>
#include <unordered_map>

#include "sixfold/base/allocator.h"

namespace sixfold::emulator {

class Constants {
 public:
  struct Item {
    const std::byte* data = nullptr;  // 64-byte aligned
    size_t size_bytes = 0;
    uint64_t hash = 0;
    OwnedBlock block;  // empty: the bytes lie in a binary
  };

  // Takes the block, or finds the one with the same bytes. Its index.
  uint32_t add(OwnedBlock block, size_t size_bytes);
  // Bytes of a binary that live as long as this.
  void add_view(const std::byte* data, size_t size_bytes) { items_.push_back({data, size_bytes, 0, {}}); }

  size_t size() const { return items_.size(); }
  const Item& operator[](size_t index) const { return items_[index]; }

 private:
  std::deque<Item> items_;
  std::unordered_multimap<uint64_t, uint32_t> by_hash_;
};

}  // namespace sixfold::emulator
