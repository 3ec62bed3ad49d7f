// The methods of a program, for read() alone.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "sixfold/pte/pte_generated.h"
#include "sixfold/pte/read.h"
#include "sixfold/pte/wire.h"

namespace sixfold::pte {

// The parts of a file that tables refer to.
struct ProgramBytes {
  std::span<const std::byte> file;
  Layout& layout;
  const flatbuffers::Vector<flatbuffers::Offset<wire::InlineBytes>>* inline_delegates;

  // `content` is how Layout::Segment calls it.
  Result<std::span<const std::byte>> segment(uint64_t index, std::string_view content);
};

Status read_methods(const wire::Program& root, ProgramBytes& bytes, const Limits& limits, Budget& budget,
                    Program& program);

}  // namespace sixfold::pte
