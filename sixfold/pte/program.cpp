#include "sixfold/pte/program.h"

namespace sixfold::pte {

std::optional<uint64_t> size_bytes(DType dtype, std::span<const int32_t> sizes) {
  // A zero anywhere makes the product zero, whatever the others are.
  bool empty = false;
  for (const int32_t size : sizes) {
    if (size < 0) return std::nullopt;
    empty |= size == 0;
  }
  if (empty) return 0;
  int64_t bytes = static_cast<int64_t>(size_of(dtype));
  for (const int32_t size : sizes)
    if (__builtin_mul_overflow(bytes, int64_t{size}, &bytes)) return std::nullopt;
  return static_cast<uint64_t>(bytes);
}

}  // namespace sixfold::pte
