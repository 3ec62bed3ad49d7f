// A file mapped read-only. Tensors that point into it keep it alive by sharing it (Tensor::owner).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "sixfold/base/result.h"

namespace sixfold {

class MappedFile {
 public:
  // Fails with one sentence for what is missing, unreadable, a directory or empty.
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);
  // An open file, which may be closed afterwards.
  static Result<std::shared_ptr<const MappedFile>> open_descriptor(int fd);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  void prefetch() const;  // a hint that all of it is needed soon
  // A hint that these bytes, if they are of this file, are not needed soon: they leave the process's memory,
  // and are read again when somebody looks.
  void forget(std::span<const std::byte> bytes) const;

 private:
  MappedFile(const std::byte* data, size_t size) : data_(data), size_(size) {}
  static Result<std::shared_ptr<const MappedFile>> map(int fd, const std::string& name);
  const std::byte* data_;
  size_t size_;
};

// A file beside its path, which takes that place when it is told to, or goes.
class NewFile {
 public:
  // Writes all parts. A path that is there and no regular file is refused.
  static Result<NewFile> write(const std::string& path, std::span<const std::span<const std::byte>> parts);
  Status appear();
  NewFile(NewFile&& other) noexcept
      : path_(std::move(other.path_)), beside_(std::exchange(other.beside_, "")) {}
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

 private:
  NewFile(std::string path, std::string beside) : path_(std::move(path)), beside_(std::move(beside)) {}
  std::string path_, beside_;  // beside: empty where nothing is
};

// Writes all parts to path, or nothing.
Status write_file(const std::string& path, std::span<const std::span<const std::byte>> parts);

}  // namespace sixfold
