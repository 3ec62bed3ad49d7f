// Any bytes as a .pte, a .ptd or a .bpte: what is accepted must be safe to use without another look.

#include <cstddef>
#include <cstdint>

#include "sixfold/pte/exercise.h"
#include "sixfold/pte/testing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const sixfold::pte::AlignedBytes file({reinterpret_cast<const std::byte*>(data), size});
  (void)sixfold::pte::exercise(file.bytes());
  return 0;
}
