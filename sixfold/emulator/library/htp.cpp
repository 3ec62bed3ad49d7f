// libQnnHtp.so: the emulator for clients that load Qualcomm's library by name.
#include "sixfold/emulator/emulator.h"

extern "C" __attribute__((visibility("default"))) uint64_t QnnInterface_getProviders(
    const sixfold::qnn::abi::Provider* const** list, uint32_t* count) {
  constexpr uint64_t kNullPointer = 60001;  // of the interface's range
  if (!list || !count) return kNullPointer;
  *list = sixfold::emulator::providers(count);
  return 0;
}
