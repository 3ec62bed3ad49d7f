#include "sixfold/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace sixfold {
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

Status write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), std::min(bytes.size(), size_t{1} << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fail(Code::InvalidArgument, std::strerror(errno));
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return ok_status();
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) return fail(Code::NotFound, "cannot open ", path, ": ", std::strerror(errno));
  return map(file.fd, path);
}

Result<std::shared_ptr<const MappedFile>> MappedFile::open_descriptor(int fd) {
  return map(fd, cat("descriptor ", fd));
}

Result<std::shared_ptr<const MappedFile>> MappedFile::map(int fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return fail(Code::NotFound, "cannot read ", path, ": ", std::strerror(errno));
  if (S_ISDIR(info.st_mode)) return invalid_argument(path, " is a directory, expected a file");
  if (!S_ISREG(info.st_mode)) return invalid_argument(path, " is not a regular file");
  if (info.st_size <= 0) return invalid_model(path, " is empty");
  const auto size = static_cast<size_t>(info.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) return fail(Code::NotFound, "cannot map ", path, ": ", std::strerror(errno));
  return std::shared_ptr<const MappedFile>(new MappedFile(static_cast<const std::byte*>(data), size));
}

void MappedFile::forget(std::span<const std::byte> bytes) const {
  if (bytes.data() < data_ || bytes.data() + bytes.size() > data_ + size_) return;
  // Whole pages alone: what shares one with others stays.
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(bytes.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(bytes.data() + bytes.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

void MappedFile::prefetch() const { ::madvise(const_cast<std::byte*>(data_), size_, MADV_WILLNEED); }

MappedFile::~MappedFile() { ::munmap(const_cast<std::byte*>(data_), size_); }

Result<NewFile> NewFile::write(const std::string& path, std::span<const std::span<const std::byte>> parts) {
  // Renaming would put a file in the place of a device or a pipe.
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    return invalid_argument("cannot write ", path, ": it is not a regular file");
  const std::string beside = cat(path, ".part", ::getpid());
  const Descriptor file{::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)};
  if (file.fd < 0) return invalid_argument("cannot write ", path, ": ", std::strerror(errno));
  NewFile out(path, beside);
  for (const auto part : parts)
    if (const Status s = write_all(file.fd, part); !s.ok())
      return invalid_argument("cannot write ", path, ": ", s.error().message());
  return out;
}

Status NewFile::appear() {
  if (std::rename(beside_.c_str(), path_.c_str()) != 0)
    return invalid_argument("cannot write ", path_, ": ", std::strerror(errno));
  beside_.clear();
  return {};
}

NewFile::~NewFile() {
  if (!beside_.empty()) std::remove(beside_.c_str());
}

Status write_file(const std::string& path, std::span<const std::span<const std::byte>> parts) {
  SF_ASSIGN(NewFile file, NewFile::write(path, parts));
  return file.appear();
}

}  // namespace sixfold
