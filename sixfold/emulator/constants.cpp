#include "sixfold/emulator/constants.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sixfold::emulator {

uint32_t Constants::add(OwnedBlock block, size_t size_bytes) {
  const uint64_t hash = XXH3_64bits(block.data(), size_bytes);
  const auto [first, last] = by_hash_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const Item& item = items_[it->second];
    if (item.size_bytes == size_bytes && std::memcmp(item.data, block.data(), size_bytes) == 0)
      return it->second;
  }
  const auto index = static_cast<uint32_t>(items_.size());
  const std::byte* data = block.data();
  items_.push_back({data, size_bytes, hash, std::move(block)});
  by_hash_.emplace(hash, index);
  return index;
}

}  // namespace sixfold::emulator
