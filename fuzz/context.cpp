// Any bytes as a context binary of the emulator, behind a right hash: read; in a build with kernels loaded
// and run.

#include <cstddef>
#include <cstdint>

#include "sixfold/emulator/exercise.h"
#ifndef SIXFOLD_NO_KERNELS
#include "sixfold/emulator/exercise_run.h"
#endif

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> bytes(begin, begin + size);
  sixfold::emulator::seal_binary(bytes);
#ifdef SIXFOLD_NO_KERNELS
  (void)sixfold::emulator::exercise_reading(bytes);
#else
  using sixfold::qnn::abi::Handle;
  const auto& f = sixfold::emulator::library().functions();
  static Handle backend = nullptr, device = nullptr;
  if (!backend) {
    f.backend_create(nullptr, nullptr, &backend);
    f.device_create(nullptr, nullptr, &device);
  }
  (void)sixfold::emulator::exercise_binary(backend, device, bytes);
#endif
  return 0;
}
