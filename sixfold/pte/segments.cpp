#include "sixfold/pte/segments.h"

#include <algorithm>
#include <cstring>

#include "sixfold/pte/header.h"

namespace sixfold::pte {
namespace {

bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() &&
         (a.data() == b.data() || a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

// Weights of one size rarely agree here unless they are equal, so that almost none is compared in vain.
uint64_t sample(std::span<const std::byte> bytes) {
  uint64_t hash = 0;
  for (size_t i = 0; i < 16 && !bytes.empty(); ++i) {
    const size_t at = bytes.size() / 16 * i + i * (bytes.size() % 16) / 16;
    hash = (hash ^ static_cast<uint64_t>(bytes[at])) * 0x100000001b3;
  }
  return hash;
}

}  // namespace

size_t Unique::add(std::span<const std::byte> bytes) {
  const std::pair key{bytes.size(), sample(bytes)};
  const auto [begin, end] = by_sample_.equal_range(key);
  const auto found =
      std::find_if(begin, end, [&](const auto& entry) { return equal(items_[entry.second], bytes); });
  if (found != end) return found->second;
  items_.push_back(bytes);
  by_sample_.emplace(key, items_.size() - 1);
  return items_.size() - 1;
}

uint64_t Pieces::add(std::span<const std::byte> bytes, uint64_t alignment) {
  if (bytes.empty()) return size_;
  size_ = round_up(size_, alignment);
  const uint64_t offset = size_;
  pieces_.push_back({offset, bytes});
  size_ += bytes.size();
  return offset;
}

}  // namespace sixfold::pte
