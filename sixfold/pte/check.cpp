#include "sixfold/pte/check.h"

#include <vector>

#include "sixfold/pte/header.h"
#include "sixfold/pte/program.h"

namespace sixfold::pte {

Result<uint64_t> checked_bytes(DType dtype, std::span<const int32_t> sizes,
                               std::span<const uint8_t> dim_order) {
  const size_t rank = sizes.size();
  if (rank > kMaxRank) return invalid_model("the tensor has rank ", rank, ", the limit is ", kMaxRank);
  if (dim_order.size() != rank)
    return invalid_model("the tensor has ", rank, " sizes, but ", dim_order.size(),
                         " entries in its dim order");
  uint32_t seen = 0;
  for (const uint8_t axis : dim_order) {
    if (axis >= rank || (seen >> axis & 1))
      return invalid_model("dim order ", std::vector<int>(dim_order.begin(), dim_order.end()),
                           " is not a permutation of 0 to ", rank - 1);
    seen |= 1u << axis;
  }
  const auto bytes = size_bytes(dtype, sizes);
  if (!bytes)
    return invalid_model("sizes ", sizes, " of ", to_text(dtype), " are negative or above 2^63 bytes");
  return *bytes;
}

Status check_aligned(std::span<const std::byte> data, DType dtype) {
  const size_t off = data.empty() ? 0 : reinterpret_cast<uintptr_t>(data.data()) % size_of(dtype);
  if (off == 0) return ok_status();
  return invalid_model("its data is ", off, " bytes off the alignment of ", size_of(dtype), " that ",
                       to_text(dtype), " needs");
}

Status check_start(std::span<const std::byte> file, std::string_view what) {
  if (reinterpret_cast<uintptr_t>(file.data()) % 16 == 0) return ok_status();
  return invalid_argument("the bytes of a ", what, " must be aligned to 16 in memory");
}

Status check_segment(size_t i, uint64_t offset, uint64_t size, uint64_t available, uint64_t& end) {
  if (!fits(offset, size, available))
    return invalid_model("segment ", i, " has ", size, " bytes at ", offset, ", outside the ", available,
                         " bytes of segments in the file");
  if (size == 0) return ok_status();
  if (offset < end)
    return invalid_model("segment ", i, " begins at ", offset, ", before the end of the one before it at ",
                         end);
  end = offset + size;
  return ok_status();
}

}  // namespace sixfold::pte
