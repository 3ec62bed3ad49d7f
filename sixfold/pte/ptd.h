// .ptd: tensors by name that programs refer to (Location::external), in a file of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sixfold/base/result.h"
#include "sixfold/pte/limits.h"
#include "sixfold/pte/program.h"
#include "sixfold/pte/write.h"

namespace sixfold::pte {

struct TensorLayout {
  DType dtype = DType::none;
  std::vector<int32_t> sizes;
  std::vector<uint8_t> dim_order;
  bool operator==(const TensorLayout&) const = default;
};

struct DataEntry {
  std::string key;                     // fully qualified name of a tensor, or what a delegate calls its bytes
  std::span<const std::byte> data;     // a view of the file
  std::optional<TensorLayout> layout;  // absent for bytes that only a delegate understands
};

struct DataFile {
  std::vector<DataEntry> entries;  // of unique keys, sorted by them

  const DataEntry* find(std::string_view key) const;  // null when there is none
};

// Structure and meaning, both checked: segments inside the file and apart from each other, sizes times dtype
// equal to the bytes. The file must be aligned to 16 bytes, and outlive what is returned.
Result<DataFile> read_ptd(std::span<const std::byte> file, const Limits& limits = {});

// The bytes of an external tensor: there, of the dtype, sizes and dim order that the program says, and
// aligned.
Result<std::span<const std::byte>> external_data(const DataFile& file, const Tensor& tensor);

// Entries in any order; keys must be unique. Equal bytes are stored once. Reading gives them sorted by key.
Result<std::vector<std::byte>> write_ptd(std::span<const DataEntry> entries,
                                         uint64_t segment_alignment = 128);

}  // namespace sixfold::pte
