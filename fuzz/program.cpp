// Any text as the program of a .pt2. The archive around it is right, so that mutations reach the graph's
// reader instead of failing a checksum; what imports is canonicalized as well.
//
// An input is three documents with a NUL byte between: models/model.json, and the configs of weights and
// constants. Every storage that they may name is there, and has the same few bytes.

#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "sixfold/import/import.h"
#include "sixfold/rewrite/pipeline.h"

namespace {

void put(std::string& out, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) out += static_cast<char>(i < 8 ? value >> (8 * i) : 0);
}

// A zip archive of stored members.
class Archive {
 public:
  void add(std::string_view name, std::string_view data) {
    const auto crc = static_cast<uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size())));
    std::string facts;  // what the local header and the directory both say
    put(facts, 20, 2);
    put(facts, 0, 8);  // flags, method, time, date
    put(facts, crc, 4);
    put(facts, data.size(), 4);
    put(facts, data.size(), 4);
    put(facts, name.size(), 2);
    put(facts, 0, 2);

    put(directory_, 0x02014b50, 4);
    put(directory_, 20, 2);
    directory_ += facts;
    put(directory_, 0, 10);  // comment, disk, attributes
    put(directory_, file_.size(), 4);
    directory_ += name;

    put(file_, 0x04034b50, 4);
    file_ += facts;
    file_ += name;
    file_ += data;
    ++count_;
  }

  std::string finish() {
    const size_t start = file_.size();
    file_ += directory_;
    put(file_, 0x06054b50, 4);
    put(file_, 0, 4);
    put(file_, count_, 2);
    put(file_, count_, 2);
    put(file_, directory_.size(), 4);
    put(file_, start, 4);
    put(file_, 0, 2);
    return std::move(file_);
  }

 private:
  std::string file_, directory_;
  size_t count_ = 0;
};

std::string_view next_document(std::string_view& rest) {
  const size_t end = std::min(rest.find('\0'), rest.size());
  const std::string_view found = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return found;
}

std::string archive_around(std::string_view rest) {
  static const std::string storage(1024,
                                   '\x3f');  // 0.747 as f32, a size that no check can overlook as an integer
  Archive archive;
  archive.add("m/archive_format", "pt2");
  archive.add("m/archive_version", "0");
  archive.add("m/byteorder", "little");
  archive.add("m/models/model.json", next_document(rest));
  archive.add("m/data/weights/model_weights_config.json", next_document(rest));
  archive.add("m/data/constants/model_constants_config.json", next_document(rest));
  for (int i = 0; i < 8; ++i) {
    archive.add("m/data/weights/weight_" + std::to_string(i), storage);
    archive.add("m/data/constants/tensor_" + std::to_string(i), storage);
  }
  return archive.finish();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file =
      std::make_shared<std::string>(archive_around({reinterpret_cast<const char*>(data), size}));
  const auto bytes = std::as_bytes(std::span(*file));
  auto graph = sixfold::import_pt2(sixfold::OwnedBytes{bytes, file});
  if (!graph.ok()) return 0;
  if (!sixfold::verify(*graph).ok()) __builtin_trap();  // import must not let such a graph through
  (void)sixfold::canonicalize(*graph);
  return 0;
}
