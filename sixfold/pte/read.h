// Bytes of a .pte to a Program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "sixfold/base/result.h"
#include "sixfold/pte/limits.h"
#include "sixfold/pte/program.h"

namespace sixfold::pte {

// Where things are in the file.
struct Layout {
  struct Segment {
    uint64_t offset = 0;  // from the start of the file
    uint64_t size = 0;
    std::string_view
        content;  // "constants", "initial values", "delegate", "named data"; empty: nobody uses it
    bool operator==(const Segment&) const = default;
  };
  uint64_t file_size = 0;
  uint64_t program_size = 0;  // the flatbuffer, extended header included
  uint64_t segment_base = 0;  // 0: no segments
  uint64_t segment_bytes = 0;
  std::vector<Segment> segments;
  std::optional<size_t> manifest;  // the segment that has it; it is not among the program's named data
};

// Checks the flatbuffer's structure and where segments lie, and copies what is not bulk data. The file must
// be aligned to 16 bytes, and outlive the Program, which has views of it. What it says is not checked yet:
// that is verify(), which everyone but a tool that shows broken files calls next.
//
// Memory taken is at most a small multiple of the flatbuffer's size, whatever the file says.
Result<Program> read(std::span<const std::byte> file, const Limits& limits = {}, Layout* layout = nullptr);

}  // namespace sixfold::pte
