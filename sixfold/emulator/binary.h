// Context binaries of the emulator: graphs as they were described, and their constants as kernels read them.
//
//   header      magic, version, sizes, SoC and HTP version, hash of all that follows
//   graphs      tensors and ops, by value; small
//   constants   each 64-byte aligned from the beginning of the binary
//
// No pointers, nothing of the machine that made it: the same graphs give the same bytes. What is read is
// checked as if a client had said it (Graph::restore).
#pragma once

#include "sixfold/emulator/graph.h"

namespace sixfold::emulator {

inline constexpr uint32_t kBinaryVersion = 4;
inline constexpr size_t kBinaryAlignment = 64;

struct GraphDescription {
  std::string name;
  uint32_t vtcm_mb = 0, optimization_level = 0, hvx_threads = 0;
  std::vector<TensorDef> tensors;
  std::vector<OpDef> ops;
  std::vector<uint32_t> stored;  // of each tensor: its constant, or kNone
};
struct BinaryContent {
  DeviceModel device;
  std::vector<GraphDescription> graphs;
  std::vector<std::span<const std::byte>> constants;  // in the binary
};

// A binary before it is written: all but the constants, which stay where they are until then.
class BinaryLayout {
 public:
  BinaryLayout(const DeviceModel& device, std::span<const GraphDescription> graphs,
               const Constants& constants);
  struct Place {
    uint64_t offset, size_bytes;
  };
  uint64_t size_bytes() const { return size_bytes_; }
  void write(std::span<std::byte> to) const;  // of that size

 private:
  const Constants& constants_;
  std::vector<std::byte> header_, graphs_;
  std::vector<Place> places_;  // of constants
  uint64_t size_bytes_ = 0;
};
// InvalidModel for anything but a whole, undamaged binary of this version.
Result<BinaryContent> read_binary(std::span<const std::byte> bytes);

// Makes size and hash those of the bytes, whatever they are: for tests, whose damage is to reach what the
// hash guards.
void seal_binary(std::span<std::byte> bytes);

}  // namespace sixfold::emulator
