// The header that ExecuTorch's QNN delegate puts before a context binary: 256 bytes, little endian.
//
//   0 magic (4)   4 signature (8)   12 size of the binary (8)   20 zeros   256 the binary
//
// Delegates of one signature share one context in ExecuTorch's runtime, so it must differ between contents.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sixfold/base/result.h"

namespace sixfold::qnn {

inline constexpr size_t kWrapperBytes = 256;

// The signature is a hash of the binary: equal for equal bytes, and never the time.
std::array<std::byte, kWrapperBytes> wrapper_of(std::span<const std::byte> binary);

struct Wrapped {
  int64_t signature = 0;
  std::span<const std::byte> binary;  // of the bytes given
};
// Whether the bytes begin as a wrapper does. ExecuTorch takes what does not as a DLC, to be prepared on the
// device.
bool is_wrapped(std::span<const std::byte> bytes);
Result<Wrapped> unwrap(std::span<const std::byte> bytes);

}  // namespace sixfold::qnn
