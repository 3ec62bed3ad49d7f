// A .pte, opened and verified. Nothing is bound to memory or kernels yet: that is Method.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sixfold/base/mapped_file.h"
#include "sixfold/base/result.h"
#include "sixfold/pte/limits.h"
#include "sixfold/pte/manifest.h"
#include "sixfold/pte/program.h"
#include "sixfold/pte/ptd.h"
#include "sixfold/pte/read.h"

namespace sixfold {

struct LoadOptions {
  pte::Limits limits;
  // Which hashes of a file with a manifest are compared: of small parts, or of every byte.
  pte::CheckData check_data = pte::CheckData::small;
  bool prefetch = false;  // ask the system to read the whole file now, not page by page
  // .ptd files with the constants that the program keeps outside.
  std::vector<std::string> data_files;
};

// Immutable: any number of threads may use one. A copy shares everything; methods keep it alive.
class Program {
 public:
  // Maps the file; what runs touches is all that is read.
  static Result<Program> open(const std::string& path, const LoadOptions& options = {});
  // Maps an open file; the descriptor may be closed afterwards.
  static Result<Program> open_descriptor(int fd, const LoadOptions& options = {});
  // Bytes aligned to 16 that outlive the program and its methods (or that owner keeps).
  static Result<Program> from_memory(std::span<const std::byte> bytes, const LoadOptions& options = {},
                                     std::shared_ptr<const void> owner = nullptr);

  const std::vector<pte::Method>& methods() const { return state_->program.methods; }
  const pte::Method* find_method(std::string_view name) const;  // null when there is none
  const pte::Program& contents() const { return state_->program; }

  // The bytes of a constant, or of the initial value of a planned tensor that has one; empty for other
  // tensors. An external tensor that no .ptd has is an error with its name.
  Result<std::span<const std::byte>> data_of(const pte::Tensor& tensor) const;
  // A hint that constant data will not be read again soon; for data that is mapped from a file.
  void forget(std::span<const std::byte> data) const;
  // Null for a file without one.
  const pte::Manifest* manifest() const { return state_->sealed ? &state_->sealed->manifest : nullptr; }
  // Whether the manifest vouches for bytes of the file, a whole part of it: their hash is compared, and an
  // error says that it differs. False when there is no hash of them.
  Result<bool> vouches(std::span<const std::byte> part) const;
  // Programs that share everything have the same; null once the last is gone.
  std::weak_ptr<const void> identity() const { return state_; }
  // Named data of the program or of a .ptd, for delegates; null when there is none.
  const std::span<const std::byte>* find_named_data(std::string_view key) const;

 private:
  struct State {
    pte::Program program;
    std::span<const std::byte> file;
    pte::Layout layout;
    std::optional<pte::Sealed> sealed;  // the manifest with its hashes
    // What keeps the bytes that the rest refers to.
    std::shared_ptr<const void> owner;
    std::vector<std::shared_ptr<const MappedFile>> files;
    std::vector<pte::DataFile> data;
  };
  static Result<Program> map(const std::shared_ptr<const MappedFile>& file, const LoadOptions& options);
  static Result<std::shared_ptr<State>> load(std::span<const std::byte> bytes, const LoadOptions& options);
  explicit Program(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace sixfold
