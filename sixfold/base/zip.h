// Reads zip archives from memory: .pt2 and .npz. Members that are stored are used in place.
//
// The central directory is the only truth about names and sizes (torch leaves the sizes in local headers at
// 0); a local header is read only to find where the data begins. Everything is checked against the bytes that
// are there, so an archive that lies is refused, never followed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sixfold/base/result.h"

namespace sixfold {

struct ZipMember {
  std::string name;
  uint64_t header_offset = 0;
  uint64_t packed_bytes = 0;  // in the archive
  uint64_t size_bytes = 0;    // unpacked
  uint64_t limit = 0;         // where the next member, or the directory, begins
  uint32_t crc = 0;
  uint16_t method = 0;
};

struct ZipLimits {
  uint64_t max_members = uint64_t{1} << 20;
  uint64_t max_inflated_bytes = uint64_t{4} << 30;  // of all compressed members together
};

// Bytes and who keeps them alive: the archive's owner, or a buffer for a member that had to be inflated.
struct OwnedBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

class ZipReader {
 public:
  static Result<ZipReader> open(OwnedBytes archive, const ZipLimits& limits = {});

  const std::vector<ZipMember>& members() const { return members_; }  // by place in the archive
  const ZipMember* find(std::string_view name) const;
  // check_crc reads every byte; leave it out for large data that is to stay on disk.
  Result<OwnedBytes> read(const ZipMember& member, bool check_crc) const;

 private:
  OwnedBytes archive_;
  std::vector<ZipMember> members_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

// Makes an archive of stored members whose data is 64-byte aligned. The same members give the same bytes: no
// clock.
class ZipWriter {
 public:
  // The bytes of parts, one after the other, must live until write().
  void add(std::string name, std::vector<std::span<const std::byte>> parts);
  Status write(const std::string& path) const;

 private:
  struct Entry {
    std::string name;
    std::vector<std::span<const std::byte>> parts;
  };
  std::vector<Entry> entries_;
};

}  // namespace sixfold
