// The extended header, spliced into the flatbuffer after its first eight bytes: where the flatbuffer ends and
// where segments begin.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "sixfold/base/result.h"

namespace sixfold::pte {

// The same rules serve .pte and .ptd; the numbers differ.
struct Header {
  uint64_t program_size = 0;   // bytes of the flatbuffer, from the start of the file
  uint64_t segment_base = 0;   // from the start of the file
  uint64_t segment_bytes = 0;  // 0: not stated
};

inline constexpr size_t kHeaderStart = 8;   // after root offset and identifier
inline constexpr size_t kHeaderBytes = 32;  // as we write it
inline constexpr size_t kSmallestFile = 64;

// Files are little-endian, as all our targets are.
template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <typename T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

// The header of a .pte, checked against the size of the file. A file without one is all flatbuffer.
Result<Header> read_header(std::span<const std::byte> file);

// The flatbuffer with `inserted` zeros after its first eight bytes, and its root offset moved by as much. At
// least kSmallestFile bytes: readers take that many before anything else.
std::vector<std::byte> splice(std::span<const std::byte> flatbuffer, size_t inserted);

// [begin, begin + size) within [0, total): without overflow.
constexpr bool fits(uint64_t begin, uint64_t size, uint64_t total) {
  return begin <= total && size <= total - begin;
}

constexpr uint64_t round_up(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace sixfold::pte
