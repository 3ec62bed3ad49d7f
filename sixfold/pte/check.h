// Checks that .pte, .ptd and .bpte share.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "sixfold/base/dtype.h"
#include "sixfold/pte/limits.h"

namespace sixfold::pte {

inline constexpr size_t kMaxRank = 16;

// Bytes of a tensor of that shape: rank, sizes, dim_order and the product checked.
Result<uint64_t> checked_bytes(DType dtype, std::span<const int32_t> sizes,
                               std::span<const uint8_t> dim_order);

// At an address that suits the type.
Status check_aligned(std::span<const std::byte> data, DType dtype);

// Where the file lies in memory.
Status check_start(std::span<const std::byte> file, std::string_view what);

// Segment i inside `available` bytes, and not before the end of the one before it, which it then moves.
Status check_segment(size_t i, uint64_t offset, uint64_t size, uint64_t available, uint64_t& end);

// The root of a flatbuffer whose structure is right.
template <typename Table>
Result<const Table*> verified_root(std::span<const std::byte> buffer, const Limits& limits,
                                   bool (*verify)(flatbuffers::Verifier&)) {
  if (buffer.size() >= FLATBUFFERS_MAX_BUFFER_SIZE)
    return invalid_model("the flatbuffer has ", buffer.size(), " bytes, the format's limit is ",
                         FLATBUFFERS_MAX_BUFFER_SIZE);
  flatbuffers::Verifier::Options options;
  options.max_depth = limits.nesting;
  options.max_tables = limits.tables;
  const auto* start = reinterpret_cast<const uint8_t*>(buffer.data());
  flatbuffers::Verifier verifier(start, buffer.size(), options);
  if (!verify(verifier))
    return invalid_model(
        "the flatbuffer of ", buffer.size(),
        " bytes is damaged: a table or list is misplaced or reaches past the end, or there are "
        "more than ",
        limits.tables, " tables or ", limits.nesting, " levels of them");
  return flatbuffers::GetRoot<Table>(start);
}

}  // namespace sixfold::pte
