// For the readers of flatbuffers in this folder: vectors out of a verified buffer, within a budget.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "sixfold/base/result.h"

namespace sixfold::pte {

// Vectors and strings of a flatbuffer may be shared by many tables, so a small file could ask for endless
// copies. No writer of these formats shares more than a few, and copies are counted against the file's size.
class Budget {
 public:
  explicit Budget(uint64_t program_size) : total_(4 * program_size + 4096), left_(total_) {}

  Status take(uint64_t bytes) {
    if (bytes > left_)
      return invalid_model("the program has more than ", total_,
                           " bytes of strings and lists, more than its size allows");
    left_ -= bytes;
    return ok_status();
  }

  // Elements may be less aligned than their type: the flatbuffer verifier checks that of the count alone.
  template <typename T, typename U>
  Status copy(const flatbuffers::Vector<U>* from, std::vector<T>& to) {
    static_assert(sizeof(T) == sizeof(U));
    if (!from) return ok_status();
    SF_TRY(take(uint64_t{from->size()} * sizeof(T)));
    to.resize(from->size());
    if (!to.empty()) std::memcpy(to.data(), from->Data(), to.size() * sizeof(T));
    return ok_status();
  }
  Status copy(const flatbuffers::String* from, std::string& to) {
    if (!from) return ok_status();
    SF_TRY(take(from->size()));
    to.assign(from->c_str(), from->size());
    return ok_status();
  }

 private:
  uint64_t total_, left_;
};

// A view, not a copy.
inline std::span<const std::byte> bytes_of(const flatbuffers::Vector<uint8_t>* vector) {
  if (!vector) return {};
  return std::as_bytes(std::span(vector->data(), vector->size()));
}

template <typename T>
size_t count(const flatbuffers::Vector<T>* vector) {
  return vector ? vector->size() : 0;
}

}  // namespace sixfold::pte
