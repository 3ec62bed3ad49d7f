#include "sixfold/base/zip.h"

#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "sixfold/base/mapped_file.h"

namespace sixfold {
namespace {

constexpr uint32_t kLocalSignature = 0x04034b50, kCentralSignature = 0x02014b50, kEndSignature = 0x06054b50;
constexpr uint32_t kEnd64Signature = 0x06064b50, kLocator64Signature = 0x07064b50;
constexpr size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocator64Bytes = 20;
constexpr uint16_t kStored = 0, kDeflated = 8;
constexpr uint64_t kMaxDeflateRatio = 1032;  // no deflate stream grows more than this

template <typename T>
T load(std::span<const std::byte> bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);  // both zip and our hosts are little-endian
  return value;
}

// bytes[at, at + size), or nothing when that is not all there.
std::optional<std::span<const std::byte>> slice(std::span<const std::byte> bytes, uint64_t at,
                                                uint64_t size) {
  if (at > bytes.size() || size > bytes.size() - at) return std::nullopt;
  return bytes.subspan(at, size);
}

struct Directory {
  uint64_t offset = 0, size_bytes = 0, count = 0, end = 0;
};

// The end record is the last one whose comment reaches exactly to the end of the file.
std::optional<size_t> find_end_record(std::span<const std::byte> file) {
  if (file.size() < kEndBytes) return std::nullopt;
  const size_t last = file.size() - kEndBytes;
  for (size_t back = 0; back <= std::min<size_t>(last, 0xffff); ++back) {
    const size_t at = last - back;
    if (load<uint32_t>(file, at) == kEndSignature && load<uint16_t>(file, at + 20) == back) return at;
  }
  return std::nullopt;
}

Result<Directory> find_directory(std::span<const std::byte> file) {
  const auto found = find_end_record(file);
  if (!found) {
    if (file.size() >= 4 && load<uint32_t>(file, 0) == kLocalSignature)
      return invalid_model("the zip archive is cut short: its directory is missing after ", file.size(),
                           " bytes");
    return invalid_model("not a zip archive: no end record in ", file.size(), " bytes");
  }
  const size_t at = *found;
  Directory out{load<uint32_t>(file, at + 16), load<uint32_t>(file, at + 12), load<uint16_t>(file, at + 10),
                at};
  if (load<uint16_t>(file, at + 4) != 0 && load<uint16_t>(file, at + 4) != 0xffff)
    return invalid_model("the zip archive is split over several files");
  if (out.offset == 0xffffffff || out.size_bytes == 0xffffffff || out.count == 0xffff) {
    if (at < kLocator64Bytes || load<uint32_t>(file, at - kLocator64Bytes) != kLocator64Signature) {
      if (out.offset == 0xffffffff || out.size_bytes == 0xffffffff)
        return invalid_model("the zip archive has no zip64 locator although its sizes call for one");
    } else {
      const auto at64 = load<uint64_t>(file, at - kLocator64Bytes + 8);
      const auto end64 = slice(file, at64, kEnd64Bytes);
      if (!end64 || load<uint32_t>(*end64, 0) != kEnd64Signature || at64 + kEnd64Bytes > at - kLocator64Bytes)
        return invalid_model("the zip64 end record at ", at64, " is not there: the file has ", file.size(),
                             " bytes");
      out = {load<uint64_t>(*end64, 48), load<uint64_t>(*end64, 40), load<uint64_t>(*end64, 32), at64};
    }
  }
  if (out.offset > out.end || out.size_bytes > out.end - out.offset)
    return invalid_model("the zip directory claims bytes ", out.offset, " to ", out.offset, " + ",
                         out.size_bytes, ", beyond its end record at ", out.end);
  return out;
}

// Sizes that do not fit 32 bits are in extra field 1, in this order, each only when its 32-bit field is
// saturated.
Status read_zip64_extra(std::span<const std::byte> extra, ZipMember& member) {
  uint64_t* const wide[] = {&member.size_bytes, &member.packed_bytes, &member.header_offset};
  const bool needed =
      std::any_of(std::begin(wide), std::end(wide), [](uint64_t* f) { return *f == 0xffffffff; });
  while (needed && extra.size() >= 4) {
    const auto id = load<uint16_t>(extra, 0);
    const auto size = load<uint16_t>(extra, 2);
    const auto body = slice(extra, 4, size);
    if (!body) break;
    extra = extra.subspan(4 + size);
    if (id != 1) continue;
    size_t at = 0;
    for (uint64_t* field : wide) {
      if (*field != 0xffffffff) continue;
      if (at + 8 > body->size()) return invalid_model("zip member ", member.name, " has a short zip64 field");
      *field = load<uint64_t>(*body, at);
      at += 8;
    }
    return ok_status();
  }
  if (needed)
    return invalid_model("zip member ", member.name, " has no zip64 field although its sizes call for one");
  return ok_status();
}

// One entry of the directory; rest moves behind it.
Result<ZipMember> read_entry(std::span<const std::byte>& rest) {
  if (rest.size() < kCentralBytes || load<uint32_t>(rest, 0) != kCentralSignature)
    return invalid_model("the zip directory is damaged: an entry is missing");
  const size_t name_bytes = load<uint16_t>(rest, 28), extra_bytes = load<uint16_t>(rest, 30);
  const size_t total = kCentralBytes + name_bytes + extra_bytes + load<uint16_t>(rest, 32);
  if (total > rest.size()) return invalid_model("the zip directory is damaged: an entry is cut short");
  ZipMember out;
  out.name.assign(reinterpret_cast<const char*>(rest.data()) + kCentralBytes, name_bytes);
  out.method = load<uint16_t>(rest, 10);
  out.crc = load<uint32_t>(rest, 16);
  out.packed_bytes = load<uint32_t>(rest, 20);
  out.size_bytes = load<uint32_t>(rest, 24);
  out.header_offset = load<uint32_t>(rest, 42);
  const auto flags = load<uint16_t>(rest, 8);
  if (out.name.empty() || std::any_of(out.name.begin(), out.name.end(),
                                      [](char c) { return static_cast<unsigned char>(c) < 0x20; }))
    return invalid_model("the zip directory is damaged: a member has no printable name");
  if (flags & 0x2041) return unsupported("zip member ", out.name, " is encrypted");
  if (out.method != kStored && out.method != kDeflated)
    return unsupported("zip member ", out.name, " is compressed by method ", out.method,
                       "; only stored and deflate are read");
  SF_TRY(read_zip64_extra(rest.subspan(kCentralBytes + name_bytes, extra_bytes), out));
  if (out.method == kStored && out.packed_bytes != out.size_bytes)
    return invalid_model("zip member ", out.name, " is stored but has two sizes: ", out.packed_bytes, " and ",
                         out.size_bytes);
  rest = rest.subspan(total);
  return out;
}

// Members in file order may not overlap, so that no byte is counted twice (the trick of most zip bombs).
Status place(std::vector<ZipMember>& members, uint64_t directory_offset) {
  std::sort(members.begin(), members.end(),
            [](const ZipMember& a, const ZipMember& b) { return a.header_offset < b.header_offset; });
  uint64_t limit = directory_offset;
  for (size_t i = members.size(); i-- > 0;) {
    ZipMember& m = members[i];
    const uint64_t head = kLocalBytes + m.name.size();
    if (m.header_offset > limit || head > limit - m.header_offset ||
        m.packed_bytes > limit - m.header_offset - head)
      return invalid_model("zip member ", m.name, " claims ", m.packed_bytes, " bytes at ", m.header_offset,
                           ", but the next part of the file begins at ", limit);
    m.limit = limit;
    limit = m.header_offset;
  }
  return ok_status();
}

Result<OwnedBytes> inflate_member(const ZipMember& member, std::span<const std::byte> packed) {
  auto* memory = static_cast<std::byte*>(std::malloc(std::max<uint64_t>(member.size_bytes, 1)));
  if (!memory)
    return fail(Code::OutOfMemory, "zip member ", member.name, " needs ", member.size_bytes, " bytes");
  std::shared_ptr<const void> owner(memory, [](const void* p) { std::free(const_cast<void*>(p)); });
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return fail(Code::OutOfMemory, "zlib did not start");
  uint64_t taken = 0, made = 0;
  int code = Z_OK;
  while (code == Z_OK) {  // zlib counts in 32 bits
    const auto in = static_cast<uInt>(std::min<uint64_t>(packed.size() - taken, 1u << 30));
    const auto out = static_cast<uInt>(std::min<uint64_t>(member.size_bytes - made, 1u << 30));
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data() + taken));
    stream.avail_in = in;
    stream.next_out = reinterpret_cast<Bytef*>(memory + made);
    stream.avail_out = out;
    code = inflate(&stream, Z_NO_FLUSH);
    taken += in - stream.avail_in;
    made += out - stream.avail_out;
  }
  inflateEnd(&stream);
  if (code != Z_STREAM_END || made != member.size_bytes)
    return invalid_model("zip member ", member.name, " does not inflate to its ", member.size_bytes,
                         " bytes");
  return OwnedBytes{{memory, static_cast<size_t>(member.size_bytes)}, std::move(owner)};
}

uint32_t crc_of(std::span<const std::byte> bytes, uint32_t crc = 0) {
  return static_cast<uint32_t>(crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace

Result<ZipReader> ZipReader::open(OwnedBytes archive, const ZipLimits& limits) {
  SF_ASSIGN(const Directory directory, find_directory(archive.bytes));
  if (directory.count > limits.max_members || directory.count > directory.size_bytes / kCentralBytes)
    return invalid_model("the zip directory claims ", directory.count, " members in ", directory.size_bytes,
                         " bytes");
  ZipReader out;
  std::span<const std::byte> rest = archive.bytes.subspan(directory.offset, directory.size_bytes);
  uint64_t inflated = 0;
  for (uint64_t i = 0; i < directory.count; ++i) {
    SF_ASSIGN(ZipMember member, read_entry(rest));
    if (member.method == kDeflated) {
      if (member.size_bytes / kMaxDeflateRatio > member.packed_bytes + 1)
        return invalid_model("zip member ", member.name, " claims to inflate ", member.packed_bytes,
                             " bytes to ", member.size_bytes, ", more than deflate can");
      if (member.size_bytes > limits.max_inflated_bytes - inflated)
        return invalid_model("the zip archive inflates to more than ", limits.max_inflated_bytes,
                             " bytes at member ", member.name);
      inflated += member.size_bytes;
    }
    out.members_.push_back(std::move(member));
  }
  SF_TRY(place(out.members_, directory.offset));
  for (size_t i = 0; i < out.members_.size(); ++i) {
    if (!out.by_name_.emplace(out.members_[i].name, i).second)
      return invalid_model("the zip archive has two members named ", out.members_[i].name);
  }
  out.archive_ = std::move(archive);
  return out;
}

const ZipMember* ZipReader::find(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &members_[it->second];
}

Result<OwnedBytes> ZipReader::read(const ZipMember& member, bool check_crc) const {
  const auto header = slice(archive_.bytes, member.header_offset, kLocalBytes + member.name.size());
  if (!header || load<uint32_t>(*header, 0) != kLocalSignature ||
      load<uint16_t>(*header, 26) != member.name.size() ||
      std::memcmp(header->data() + kLocalBytes, member.name.data(), member.name.size()) != 0 ||
      load<uint16_t>(*header, 8) != member.method)
    return invalid_model("zip member ", member.name, " is not at ", member.header_offset,
                         " as the directory says");
  const uint64_t begin = member.header_offset + header->size() + load<uint16_t>(*header, 28);
  if (begin > member.limit || member.packed_bytes > member.limit - begin)
    return invalid_model("zip member ", member.name, " claims ", member.packed_bytes, " bytes at ", begin,
                         ", but the next part of the file begins at ", member.limit);
  const auto packed = archive_.bytes.subspan(begin, member.packed_bytes);
  OwnedBytes out{packed, archive_.owner};
  if (member.method == kDeflated) {
    SF_ASSIGN(out, inflate_member(member, packed));
  }
  // torch can be told to write no checksums; it writes zeros then.
  if (check_crc && member.crc != 0 && crc_of(out.bytes) != member.crc)
    return invalid_model("zip member ", member.name, " is damaged: its checksum does not match");
  return out;
}

namespace {

class ByteString {
 public:
  template <typename T>
  ByteString& put(T value) {
    const auto* p = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), p, p + sizeof value);
    return *this;
  }
  ByteString& put_text(std::string_view text) {
    const auto* p = reinterpret_cast<const std::byte*>(text.data());
    bytes_.insert(bytes_.end(), p, p + text.size());
    return *this;
  }
  ByteString& pad(size_t n) {
    bytes_.insert(bytes_.end(), n, std::byte{0});
    return *this;
  }
  size_t size() const { return bytes_.size(); }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

uint32_t clip32(uint64_t x) { return static_cast<uint32_t>(std::min<uint64_t>(x, 0xffffffff)); }
constexpr uint32_t kDosTime = 0x00210000;  // 1980-01-01 00:00, the earliest that zip can say
constexpr uint16_t kPadId = 0x4246;        // "FB", as torch pads

}  // namespace

void ZipWriter::add(std::string name, std::vector<std::span<const std::byte>> parts) {
  entries_.push_back({std::move(name), std::move(parts)});
}

Status ZipWriter::write(const std::string& path) const {
  std::vector<ByteString> heads(entries_.size());
  std::vector<std::span<const std::byte>> file;
  ByteString directory;
  uint64_t at = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& e = entries_[i];
    uint64_t size = 0;
    uint32_t crc = 0;
    for (const auto part : e.parts) {
      size += part.size();
      crc = crc_of(part, crc);
    }
    const bool wide = size >= 0xffffffff;
    const auto version = static_cast<uint16_t>(wide || at >= 0xffffffff ? 45 : 20);
    const size_t bare = kLocalBytes + e.name.size() + (wide ? 20 : 0) + 4;
    const auto pad = static_cast<uint16_t>((64 - (at + bare) % 64) % 64);
    ByteString& head = heads[i];
    head.put(kLocalSignature).put(version).put(uint16_t{0}).put(kStored).put(kDosTime).put(crc);
    head.put(clip32(size)).put(clip32(size)).put(static_cast<uint16_t>(e.name.size()));
    head.put(static_cast<uint16_t>((wide ? 20 : 0) + 4 + pad)).put_text(e.name);
    if (wide) head.put(uint16_t{1}).put(uint16_t{16}).put(size).put(size);
    head.put(kPadId).put(pad).pad(pad);

    ByteString wides;
    if (wide) wides.put(size).put(size);
    if (at >= 0xffffffff) wides.put(at);
    directory.put(kCentralSignature)
        .put(version)
        .put(version)
        .put(uint16_t{0})
        .put(kStored)
        .put(kDosTime)
        .put(crc);
    directory.put(clip32(size)).put(clip32(size)).put(static_cast<uint16_t>(e.name.size()));
    directory.put(static_cast<uint16_t>(wides.size() ? wides.size() + 4 : 0))
        .put(uint16_t{0})
        .put(uint16_t{0});
    directory.put(uint16_t{0}).put(uint32_t{0}).put(clip32(at)).put_text(e.name);
    if (wides.size()) {
      directory.put(uint16_t{1}).put(static_cast<uint16_t>(wides.size()));
      for (const std::byte b : wides.bytes()) directory.put(b);
    }
    file.push_back(head.bytes());
    file.insert(file.end(), e.parts.begin(), e.parts.end());
    at += head.size() + size;
  }
  const uint64_t count = entries_.size(), size = directory.size();
  if (at >= 0xffffffff || count >= 0xffff || size >= 0xffffffff) {
    directory.put(kEnd64Signature).put(uint64_t{kEnd64Bytes - 12}).put(uint16_t{45}).put(uint16_t{45});
    directory.put(uint32_t{0}).put(uint32_t{0}).put(count).put(count).put(size).put(at);
    directory.put(kLocator64Signature).put(uint32_t{0}).put(at + size).put(uint32_t{1});
  }
  const auto count16 = static_cast<uint16_t>(std::min<uint64_t>(count, 0xffff));
  directory.put(kEndSignature).put(uint16_t{0}).put(uint16_t{0}).put(count16).put(count16);
  directory.put(clip32(size)).put(clip32(at)).put(uint16_t{0});
  file.push_back(directory.bytes());
  return write_file(path, file);
}

}  // namespace sixfold
