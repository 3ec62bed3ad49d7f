// The methods of a program, for write() alone.
#pragma once

#include <cstdint>
#include <span>

#include "sixfold/pte/program.h"
#include "sixfold/pte/pte_generated.h"

namespace sixfold::pte {

// Where a delegate's blob went.
struct DelegateData {
  bool inlined;
  uint32_t index;  // of the blobs inside the program, or of segments
};

Result<flatbuffers::Offset<wire::Method>> write_method(flatbuffers::FlatBufferBuilder& builder,
                                                       const Method& method,
                                                       std::span<const DelegateData> delegates);

}  // namespace sixfold::pte
