// What a file may ask for at most. A file above a limit is refused with both numbers; raise the limit to load
// it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sixfold::pte {

struct Limits {
  size_t methods = 1024;
  // Totals over all methods of a file.
  size_t values = size_t{1} << 20;
  size_t instructions = size_t{1} << 20;
  size_t delegates = size_t{1} << 16;
  size_t named_data = size_t{1} << 16;
  size_t segments = size_t{1} << 20;
  // Planned memory of one method.
  uint64_t arena_bytes = uint64_t{1} << 36;
  // Tables of the flatbuffer, and how deep they nest.
  uint32_t tables = 1u << 23;
  uint32_t nesting = 16;
};

}  // namespace sixfold::pte
