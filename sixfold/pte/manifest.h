// The manifest: what a file of ours was made from and needs, and hashes of its parts. A JSON document among
// the named data, under a key that ExecuTorch never asks for.
//
// The hashes find damage, not malice: who can change a segment can change its hash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sixfold/base/result.h"

namespace sixfold::pte {

struct Layout;

inline constexpr std::string_view kManifestKey = "sixfold.manifest";

struct Manifest {
  std::string tool;                  // "sixfold 0.1.0"
  std::vector<std::string> sources;  // hash_hex of each .pt2
  std::string precision;             // "fp32", "8a8w"
  std::string target;                // "cpu", or a SoC
  // What the file needs beside sixfold, by name and version ("qnn", "2.49").
  std::vector<std::pair<std::string, std::string>> libraries;
  bool operator==(const Manifest&) const = default;
};

// XXH3-128 in hexadecimal digits. It runs at the speed of memory, where SHA-256 takes ten times as long.
std::string hash_hex(std::span<const std::byte> bytes);
inline constexpr size_t kHashDigits = 32;

// The same over bytes that are not in one piece.
class HashStream {
 public:
  HashStream();
  ~HashStream();
  HashStream(const HashStream&) = delete;
  HashStream& operator=(const HashStream&) = delete;
  void add(std::span<const std::byte> bytes);
  std::string hex() const;

 private:
  void* state_;
};

// A manifest with the hashes of the program (the flatbuffer with its header) and of each segment; that of the
// segment where the manifest itself is, is empty.
struct Sealed {
  Manifest manifest;
  std::string program;
  std::vector<std::string> segments;
};
std::string to_json(const Sealed& sealed);
Result<Sealed> parse_manifest(std::string_view json);

enum class CheckData : uint8_t {
  small,  // parts of up to kSmallPart bytes: always cheap
  all,    // every byte of the file is read
};
inline constexpr uint64_t kSmallPart = uint64_t{16} << 20;

// The file's manifest, after its hashes were found to be those of the file. A file without one gives an empty
// Manifest, and nothing was checked. sealed gets its hashes, where there are any.
Result<Manifest> check_manifest(std::span<const std::byte> file, const Layout& layout, CheckData check,
                                Sealed* sealed = nullptr);

// The hash of one part of the file against its manifest.
Status check_hash(std::span<const std::byte> part, const std::string& expected, std::string_view what);

}  // namespace sixfold::pte
