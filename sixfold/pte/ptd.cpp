#include "sixfold/pte/ptd.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "sixfold/base/tensor.h"
#include "sixfold/pte/check.h"
#include "sixfold/pte/header.h"
#include "sixfold/pte/ptd_generated.h"
#include "sixfold/pte/scalar_type.h"
#include "sixfold/pte/segments.h"
#include "sixfold/pte/text.h"
#include "sixfold/pte/wire.h"

namespace sixfold::pte {
namespace {

constexpr uint32_t kStatedBytes = 40;  // length of the header as the file states it
constexpr size_t kInsertedBytes = 48;  // with padding: what lies after it stays aligned to 16

Result<Header> read_data_header(std::span<const std::byte> file) {
  if (file.size() < kSmallestFile)
    return invalid_model("the file has ", file.size(), " bytes, a .ptd has at least ", kSmallestFile);
  const std::byte* start = file.data() + kHeaderStart;
  if (std::memcmp(file.data() + 4, "FT01", 4) != 0 || std::memcmp(start, "FH01", 4) != 0)
    return invalid_model("the file is not a .ptd: it has no \"FT01FH01\" at byte 4");
  const auto length = load<uint32_t>(start + 4);
  if (length < kStatedBytes)
    return invalid_model("the header has length ", length, ", expected at least ", kStatedBytes);
  const auto inserted = load<uint64_t>(start + 8), size = load<uint64_t>(start + 16);
  Header header{.segment_base = load<uint64_t>(start + 24), .segment_bytes = load<uint64_t>(start + 32)};
  if (!fits(inserted, size, file.size()))
    return invalid_model("the header gives the flatbuffer ", inserted, " + ", size, " bytes of a file of ",
                         file.size());
  header.program_size = inserted + size;
  if (header.program_size < kSmallestFile - 8)
    return invalid_model("the header gives the flatbuffer ", header.program_size,
                         " bytes, fewer than its own length");
  if (header.segment_bytes != 0 && header.segment_base < header.program_size)
    return invalid_model("segments begin at byte ", header.segment_base, ", inside the flatbuffer's ",
                         header.program_size, " bytes");
  if (!fits(header.segment_base, header.segment_bytes, file.size()))
    return invalid_model("the file is cut short: segments reach from byte ", header.segment_base, " over ",
                         header.segment_bytes, " bytes, the file has ", file.size());
  return header;
}

Result<std::vector<std::span<const std::byte>>> read_segments(const ptd_wire::DataFile& root,
                                                              const Header& header,
                                                              std::span<const std::byte> file,
                                                              const Limits& limits) {
  const size_t n = count(root.segments());
  if (n > limits.segments)
    return invalid_model("the file has ", n, " segments, the limit is ", limits.segments);
  std::vector<std::span<const std::byte>> out;
  uint64_t end = 0;
  for (size_t i = 0; i < n; ++i) {
    const ptd_wire::Segment* segment = root.segments()->Get(static_cast<uint32_t>(i));
    SF_TRY(check_segment(i, segment->offset(), segment->size(), header.segment_bytes, end));
    out.push_back(segment->size() == 0
                      ? std::span<const std::byte>{}
                      : file.subspan(header.segment_base + segment->offset(), segment->size()));
  }
  return out;
}

Status read_entry(const ptd_wire::NamedData& from, const std::vector<std::span<const std::byte>>& segments,
                  Budget& budget, DataEntry& to) {
  SF_TRY(budget.copy(from.key(), to.key));
  if (to.key.empty()) return invalid_model("it has no key");
  if (from.segment_index() >= segments.size())
    return invalid_model("it is in segment ", from.segment_index(), ", the file has ", segments.size());
  to.data = segments[from.segment_index()];
  const ptd_wire::Layout* layout = from.layout();
  if (!layout) return ok_status();
  TensorLayout& out = to.layout.emplace();
  SF_ASSIGN(out.dtype, dtype_of(layout->scalar_type()));
  SF_TRY(budget.copy(layout->sizes(), out.sizes));
  SF_TRY(budget.copy(layout->dim_order(), out.dim_order));
  SF_ASSIGN(const uint64_t bytes, checked_bytes(out.dtype, out.sizes, out.dim_order));
  if (bytes != to.data.size())
    return invalid_model("it has ", to.data.size(), " bytes, sizes ", out.sizes, " of ", to_text(out.dtype),
                         " need ", bytes);
  return out.dtype == DType::boolean ? check_bools(to.data) : ok_status();
}

}  // namespace

const DataEntry* DataFile::find(std::string_view key) const {
  const auto at =
      std::lower_bound(entries.begin(), entries.end(), key,
                       [](const DataEntry& entry, std::string_view wanted) { return entry.key < wanted; });
  return at != entries.end() && at->key == key ? &*at : nullptr;
}

Result<DataFile> read_ptd(std::span<const std::byte> file, const Limits& limits) {
  SF_TRY(check_start(file, ".ptd"));
  SF_ASSIGN(const Header header, read_data_header(file));
  SF_ASSIGN(const auto* root, verified_root<ptd_wire::DataFile>(file.first(header.program_size), limits,
                                                                ptd_wire::VerifyDataFileBuffer));
  if (root->version() != 0) return unsupported("the file has version ", root->version(), ", expected 0");
  SF_ASSIGN(const auto segments, read_segments(*root, header, file, limits));

  const size_t n = count(root->named_data());
  if (n > limits.named_data)
    return invalid_model("the file has ", n, " entries, the limit is ", limits.named_data);
  Budget budget(header.program_size);
  DataFile out;
  out.entries.resize(n);
  for (size_t i = 0; i < n; ++i) {
    Status status =
        read_entry(*root->named_data()->Get(static_cast<uint32_t>(i)), segments, budget, out.entries[i]);
    if (!status.ok())
      return status.take_error().during(cat("reading entry ", i, ", ", quoted(out.entries[i].key)));
  }
  std::sort(out.entries.begin(), out.entries.end(),
            [](const DataEntry& a, const DataEntry& b) { return a.key < b.key; });
  for (size_t i = 1; i < n; ++i)
    if (out.entries[i].key == out.entries[i - 1].key)
      return invalid_model("the key ", quoted(out.entries[i].key), " is there twice");
  return out;
}

Result<std::span<const std::byte>> external_data(const DataFile& file, const Tensor& tensor) {
  const DataEntry* entry = file.find(tensor.name);
  if (!entry) return fail(Code::NotFound, "the data files have no tensor ", quoted(tensor.name));
  if (!entry->layout) return invalid_model("the data of ", quoted(tensor.name), " is not a tensor");
  const TensorLayout wanted{tensor.dtype, tensor.sizes, tensor.dim_order};
  const auto text = [](const TensorLayout& layout) {
    return cat(to_text(layout.dtype), " ", layout.sizes, " in dim order ",
               std::vector<int>(layout.dim_order.begin(), layout.dim_order.end()));
  };
  if (*entry->layout != wanted)
    return invalid_model("tensor ", quoted(tensor.name), " is ", text(*entry->layout),
                         " in the data file, the program needs ", text(wanted));
  SF_TRY(check_aligned(entry->data, tensor.dtype));
  return entry->data;
}

Result<std::vector<std::byte>> write_ptd(std::span<const DataEntry> entries, uint64_t segment_alignment) {
  if (!std::has_single_bit(segment_alignment) || segment_alignment > (1 << 20))
    return invalid_argument("the alignment of segments is ", segment_alignment,
                            ", expected a power of two up to 1048576");
  flatbuffers::FlatBufferBuilder builder;
  Unique unique;
  Pieces pieces;
  std::vector<flatbuffers::Offset<ptd_wire::Segment>> segments;
  std::vector<flatbuffers::Offset<ptd_wire::NamedData>> named;
  for (const DataEntry& entry : entries) {
    const size_t n = unique.add(entry.data);
    if (n == segments.size())
      segments.push_back(
          ptd_wire::CreateSegment(builder, pieces.add(entry.data, segment_alignment), entry.data.size()));
    flatbuffers::Offset<ptd_wire::Layout> layout;
    if (entry.layout) {
      if (entry.layout->dtype == DType::none)
        return invalid_argument("entry ", quoted(entry.key), " has no dtype");
      const auto sizes = builder.CreateVector(entry.layout->sizes);
      layout = ptd_wire::CreateLayout(builder, scalar_type_of(entry.layout->dtype), sizes,
                                      builder.CreateVector(entry.layout->dim_order));
    }
    named.push_back(ptd_wire::CreateNamedData(builder, builder.CreateString(entry.key),
                                              static_cast<uint32_t>(n), layout));
  }
  const auto segments_at = builder.CreateVector(segments);
  const auto named_at = builder.CreateVector(named);
  builder.Align(16);
  ptd_wire::FinishDataFileBuffer(builder,
                                 ptd_wire::CreateDataFile(builder, /*version=*/0, segments_at, named_at));

  const auto flat = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  std::vector<std::byte> out = splice(flat, kInsertedBytes);
  const uint64_t base = round_up(out.size(), segment_alignment);
  std::byte* header = out.data() + kHeaderStart;
  std::memcpy(header, "FH01", 4);
  store(header + 4, kStatedBytes);
  store(header + 8, uint64_t{kInsertedBytes});
  store(header + 16, uint64_t{out.size() - kInsertedBytes});
  store(header + 24, base);
  store(header + 32, pieces.size_bytes());
  out.resize(base + pieces.size_bytes());
  for (const Pieces::Piece& piece : pieces.pieces())
    std::memcpy(out.data() + base + piece.offset, piece.bytes.data(), piece.bytes.size());
  return out;
}

}  // namespace sixfold::pte
