// The .pt2 container: which members it has, the program's JSON, the tensors in place.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "sixfold/base/tensor.h"
#include "sixfold/base/zip.h"
#include "sixfold/import/json.h"
#include "sixfold/import/meta.h"

namespace sixfold {

struct SchemaVersion {
  int64_t major = 0, minor = 0;
};

class Pt2Archive {
 public:
  // `model` names one of several programs in the archive; empty: the only one, or "model".
  static Result<Pt2Archive> open(OwnedBytes file, std::string_view model, bool check_crc);

  const std::string& model() const { return model_; }
  Json program() const { return program_->root(); }
  SchemaVersion version() const { return version_; }
  size_t program_bytes() const { return program_bytes_; }

  // The tensor by its name in the model ("layers.0.weight"): bytes of the mapped file, not copied unless they
  // are not aligned to their element.
  Result<Tensor> tensor(std::string_view name) const;
  // Two tensors with one storage name share memory. Empty for a name that the archive does not have.
  std::string storage_of(std::string_view name) const;

 private:
  struct Payload {
    Json entry;
    std::string_view folder;
  };
  Result<std::string> choose_model(std::string_view wanted) const;
  Status read_program();
  Result<Tensor> read_tensor(std::string_view name, const Json& entry) const;
  Status read_config(std::string_view folder, std::string_view kind);

  std::string root_, model_;
  bool check_crc_ = false;
  mutable std::set<const ZipMember*> checked_;  // storages whose checksum was found right
  ZipReader zip_;
  std::optional<JsonDocument> program_;
  size_t program_bytes_ = 0;
  SchemaVersion version_;
  std::deque<JsonDocument> configs_;
  std::map<std::string, Payload, std::less<>> payloads_;
};

}  // namespace sixfold
