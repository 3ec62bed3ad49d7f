// Any bytes as a program that is loaded and run on zeros.

#include <cstddef>
#include <cstdint>

#include "sixfold/execute/exercise.h"
#include "sixfold/pte/testing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const sixfold::pte::AlignedBytes file({reinterpret_cast<const std::byte*>(data), size});
  (void)sixfold::exercise_methods(file.bytes());
  return 0;
}
