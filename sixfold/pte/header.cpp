#include "sixfold/pte/header.h"

#include <algorithm>

namespace sixfold::pte {

std::vector<std::byte> splice(std::span<const std::byte> flatbuffer, size_t inserted) {
  assert(flatbuffer.size() >= kHeaderStart);
  std::vector<std::byte> out(std::max(flatbuffer.size() + inserted, kSmallestFile));
  std::memcpy(out.data(), flatbuffer.data(), kHeaderStart);
  std::memcpy(out.data() + kHeaderStart + inserted, flatbuffer.data() + kHeaderStart,
              flatbuffer.size() - kHeaderStart);
  store(out.data(), static_cast<uint32_t>(load<uint32_t>(out.data()) + inserted));
  return out;
}

Result<Header> read_header(std::span<const std::byte> file) {
  if (file.size() < kSmallestFile)
    return invalid_model("the file has ", file.size(), " bytes, a .pte has at least ", kSmallestFile);
  if (std::memcmp(file.data() + 4, "ET", 2) != 0)
    return invalid_model("the file is not a .pte: it has no \"ET12\" at byte 4");
  if (std::memcmp(file.data() + 4, "ET12", 4) != 0) {
    const auto* id = reinterpret_cast<const char*>(file.data()) + 6;
    const auto digit = [](char c) { return c > ' ' && c < 127 ? c : '?'; };
    return invalid_model("the file has format ET", digit(id[0]), digit(id[1]), ", expected ET12");
  }
  Header header{.program_size = file.size()};
  const std::byte* start = file.data() + kHeaderStart;
  if (std::memcmp(start, "eh00", 4) != 0) return header;

  const auto length = load<uint32_t>(start + 4);
  if (length < 24) return invalid_model("the extended header has length ", length, ", expected at least 24");
  header.program_size = load<uint64_t>(start + 8);
  header.segment_base = load<uint64_t>(start + 16);
  if (length >= 32) header.segment_bytes = load<uint64_t>(start + 24);
  if (header.program_size < kHeaderStart + 24 || header.program_size > file.size())
    return invalid_model("the header gives the program ", header.program_size, " bytes of a file of ",
                         file.size());
  if (header.segment_base == 0) {
    if (header.segment_bytes != 0)
      return invalid_model("the header has ", header.segment_bytes,
                           " bytes of segments, but no place for them");
    return header;
  }
  if (header.segment_base < header.program_size)
    return invalid_model("segments begin at byte ", header.segment_base, ", inside the program's ",
                         header.program_size, " bytes");
  if (!fits(header.segment_base, header.segment_bytes, file.size()))
    return invalid_model("the file is cut short: segments reach from byte ", header.segment_base, " over ",
                         header.segment_bytes, " bytes, the file has ", file.size());
  return header;
}

}  // namespace sixfold::pte
