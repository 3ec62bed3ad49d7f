// libQnnSystem.so: what context binaries of the emulator say of themselves.
#include "sixfold/emulator/emulator.h"

extern "C" __attribute__((visibility("default"))) uint64_t QnnSystemInterface_getProviders(
    const sixfold::qnn::abi::SystemProvider* const** list, uint32_t* count) {
  constexpr uint64_t kNullPointer = 60001;  // of the interface's range
  if (!list || !count) return kNullPointer;
  *list = sixfold::emulator::system_providers(count);
  return 0;
}
