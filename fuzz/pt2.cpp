// Any bytes as a .pt2: the zip directory, the members and what they say of each other.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "sixfold/import/import.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A buffer of exactly this size: the sanitizer sees a read past its end.
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  const auto file = std::make_shared<std::vector<std::byte>>(bytes, bytes + size);
  (void)sixfold::import_pt2(sixfold::OwnedBytes{*file, file}, {.model = "", .check_crc = true});
  return 0;
}
