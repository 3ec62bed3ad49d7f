// A Program to the bytes of a .pte. Equal programs and options give equal bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sixfold/base/result.h"
#include "sixfold/pte/manifest.h"
#include "sixfold/pte/program.h"

namespace sixfold::pte {

inline constexpr uint64_t kPageBytes = 4096;

struct WriteOptions {
  // Powers of two. A segment's start is a multiple of segment_alignment (kPageBytes lets each be mapped by
  // itself), a constant's of constant_alignment as well; delegates' blobs have both their own and the
  // segment's.
  uint64_t segment_alignment = 128;
  uint64_t constant_alignment = 16;
  uint64_t delegate_alignment = 16;
  // A segment for each delegate's blob that does not ask to be inlined; otherwise all are inside the program.
  bool extract_delegate_segments = true;
  // Written with hashes of everything, when there is one.
  std::optional<Manifest> manifest;
};

// A file as pieces that follow each other: what was made here, and views of the program's own bytes. Lives no
// longer than the bytes that the Program refers to.
class Image {
 public:
  Image() = default;
  Image(Image&&) = default;
  Image& operator=(Image&&) = default;

  std::span<const std::span<const std::byte>> parts() const { return parts_; }
  uint64_t size_bytes() const;
  std::vector<std::byte> bytes() const;  // a copy of it all

 private:
  friend class Writer;
  std::vector<std::byte> head_, zeros_, manifest_;
  std::vector<std::span<const std::byte>> parts_;
};

// Constants, initial values, blobs and named data with equal bytes are stored once. A Program that verify()
// refuses may be written, which tests do; only what the format cannot hold is an error.
Result<Image> lay_out(const Program& program, const WriteOptions& options = {});

// All of it in one buffer.
Result<std::vector<std::byte>> write(const Program& program, const WriteOptions& options = {});

}  // namespace sixfold::pte
