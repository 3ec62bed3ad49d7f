// Where bulk data goes in a file that is being written: equal bytes once, each at its alignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace sixfold::pte {

// Finds bytes that were there before.
class Unique {
 public:
  // The number of the first bytes that were equal to these, or the next number.
  size_t add(std::span<const std::byte> bytes);
  std::span<const std::span<const std::byte>> items() const { return items_; }

 private:
  std::vector<std::span<const std::byte>> items_;
  std::multimap<std::pair<size_t, uint64_t>, size_t> by_sample_;  // size and a few bytes of it
};

// Pieces one after the other, with zeros between them where alignment asks for it.
class Pieces {
 public:
  struct Piece {
    uint64_t offset;
    std::span<const std::byte> bytes;
  };
  // Its offset. Empty bytes take a place at the end, without padding.
  uint64_t add(std::span<const std::byte> bytes, uint64_t alignment);
  uint64_t size_bytes() const { return size_; }
  const std::vector<Piece>& pieces() const { return pieces_; }

 private:
  uint64_t size_ = 0;
  std::vector<Piece> pieces_;
};

}  // namespace sixfold::pte
