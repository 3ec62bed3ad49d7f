// SHA-256 (FIPS 180-4), for naming files by their content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sixfold {

// 64 lower-case hexadecimal digits. Uses the CPU's instructions for it where there are any.
std::string sha256_hex(std::span<const std::byte> bytes);

namespace internal {
// The portable way, whatever the CPU has.
std::string sha256_hex_plain(std::span<const std::byte> bytes);
}  // namespace internal

}  // namespace sixfold
