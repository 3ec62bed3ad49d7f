#include "sixfold/pte/write.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "sixfold/pte/header.h"
#include "sixfold/pte/pte_generated.h"
#include "sixfold/pte/segments.h"
#include "sixfold/pte/write_method.h"

namespace sixfold::pte {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

// The flatbuffer grows in memory by doubling, and its offsets have 31 bits.
constexpr uint64_t kMostInlineBytes = uint64_t{1} << 30;

Status check_alignment(std::string_view what, uint64_t alignment) {
  if (std::has_single_bit(alignment) && alignment <= (1 << 20)) return ok_status();
  return invalid_argument("the alignment of ", what, " is ", alignment,
                          ", expected a power of two up to 1048576");
}

// One after the other, equal ones once. offsets[0] is the placeholder that index 0 has.
std::vector<uint64_t> place(std::span<const std::span<const std::byte>> data, uint64_t alignment,
                            Pieces& pieces) {
  std::vector<uint64_t> offsets = {0};
  Unique unique;
  std::vector<uint64_t> offset_of;
  for (size_t i = 1; i < data.size(); ++i) {
    const size_t n = unique.add(data[i]);
    if (n == offset_of.size()) offset_of.push_back(pieces.add(data[i], alignment));
    offsets.push_back(offset_of[n]);
  }
  return offsets;
}

}  // namespace

uint64_t Image::size_bytes() const {
  return std::accumulate(parts_.begin(), parts_.end(), uint64_t{0},
                         [](uint64_t sum, const auto part) { return sum + part.size(); });
}

std::vector<std::byte> Image::bytes() const {
  std::vector<std::byte> out;
  out.reserve(size_bytes());
  for (const auto part : parts_) out.insert(out.end(), part.begin(), part.end());
  return out;
}

class Writer {
 public:
  Writer(const Program& program, const WriteOptions& options) : program_(program), options_(options) {}

  Result<Image> run() {
    SF_TRY(check_alignment("segments", options_.segment_alignment));
    SF_TRY(check_alignment("constants", options_.constant_alignment));
    SF_TRY(check_alignment("delegates", options_.delegate_alignment));
    place_data();
    SF_TRY(place_delegates());
    SF_TRY(place_named_data());
    SF_TRY(build());
    assemble();
    return std::move(image_);
  }

 private:
  // The next segment: pieces that belong together, at a common alignment.
  uint32_t add_segment(Pieces pieces, uint64_t alignment) {
    const uint64_t offset = pieces.size_bytes() == 0 ? segments_end_ : round_up(segments_end_, alignment);
    segments_end_ = offset + pieces.size_bytes();
    segments_.push_back({offset, std::move(pieces)});
    return static_cast<uint32_t>(segments_.size() - 1);
  }
  uint32_t add_segment(std::span<const std::byte> bytes, uint64_t alignment) {
    Pieces pieces;
    pieces.add(bytes, 1);
    return add_segment(std::move(pieces), alignment);
  }

  void place_data() {
    Pieces constants;
    constant_offsets_ = place(program_.constants, options_.constant_alignment, constants);
    add_segment(std::move(constants), std::max(options_.segment_alignment, options_.constant_alignment));
    if (program_.mutable_data.size() < 2) return;
    Pieces initial;  // copied when a method is loaded, so nothing is aligned
    mutable_offsets_ = place(program_.mutable_data, 1, initial);
    mutable_segment_ = add_segment(std::move(initial), options_.segment_alignment);
  }

  Status place_delegates() {
    Unique in_segments, inlined;
    std::vector<uint32_t> segment_of;
    const uint64_t alignment = std::max(options_.segment_alignment, options_.delegate_alignment);
    uint64_t inline_bytes = 0;
    for (const Method& method : program_.methods) {
      for (const Delegate& delegate : method.delegates) {
        for (const CompileSpec& spec : delegate.specs) inline_bytes += spec.value.size();
        if (options_.extract_delegate_segments && !delegate.inlined && !delegate.blob.empty()) {
          const size_t n = in_segments.add(delegate.blob);
          if (n == segment_of.size()) segment_of.push_back(add_segment(delegate.blob, alignment));
          delegate_data_.push_back({/*inlined=*/false, segment_of[n]});
        } else {
          delegate_data_.push_back({/*inlined=*/true, static_cast<uint32_t>(inlined.add(delegate.blob))});
        }
      }
    }
    inline_delegates_.assign(inlined.items().begin(), inlined.items().end());
    for (const auto blob : inline_delegates_) inline_bytes += blob.size();
    if (inline_bytes > kMostInlineBytes)
      return invalid_argument("delegates have ", inline_bytes, " bytes inside the program, at most ",
                              kMostInlineBytes, " fit; put them into segments");
    return ok_status();
  }

  Status place_named_data() {
    Unique unique;
    std::vector<uint32_t> segment_of;
    for (const NamedData& item : program_.named_data) {
      if (item.key == kManifestKey)
        return invalid_argument("named data has the key ", kManifestKey,
                                ", which the writer keeps for itself");
      const size_t n = unique.add(item.data);
      if (n == segment_of.size()) segment_of.push_back(add_segment(item.data, options_.segment_alignment));
      named_segments_.push_back(segment_of[n]);
    }
    if (options_.manifest) {
      // Its size counts before its hashes are known, which all have the same.
      Sealed& sealed = sealed_.emplace(Sealed{*options_.manifest, std::string(kHashDigits, '0'), {}});
      sealed.segments.assign(segments_.size(), sealed.program);
      sealed.segments.emplace_back();
      image_.manifest_.resize(to_json(sealed).size());
      manifest_segment_ = add_segment(image_.manifest_, options_.segment_alignment);
    }
    return ok_status();
  }

  // After the head is complete: the hashes of everything else.
  void seal() {
    sealed_->program = hash_hex(image_.head_);
    for (size_t i = 0; i + 1 < sealed_->segments.size(); ++i) {
      const Pieces& pieces = segments_[i].pieces;
      if (pieces.pieces().size() == 1) {
        sealed_->segments[i] = hash_hex(pieces.pieces()[0].bytes);
        continue;
      }
      HashStream hash;
      uint64_t at = 0;
      for (const Pieces::Piece& piece : pieces.pieces()) {
        hash.add(std::span<const std::byte>(image_.zeros_).first(piece.offset - at));
        hash.add(piece.bytes);
        at = piece.offset + piece.bytes.size();
      }
      sealed_->segments[i] = hash.hex();
    }
    const std::string json = to_json(*sealed_);
    assert(json.size() == image_.manifest_.size());
    std::memcpy(image_.manifest_.data(), json.data(), json.size());
  }

  Status build() {
    std::vector<Offset<wire::Method>> methods;
    size_t delegates_before = 0;
    for (const Method& method : program_.methods) {
      SF_ASSIGN(const auto offset,
                write_method(builder_, method,
                             std::span(delegate_data_).subspan(delegates_before, method.delegates.size())));
      methods.push_back(offset);
      delegates_before += method.delegates.size();
    }
    std::vector<Offset<wire::InlineBytes>> inlined;
    for (const auto blob : inline_delegates_) {
      builder_.ForceVectorAlignment(blob.size(), 1, std::max<uint64_t>(16, options_.delegate_alignment));
      inlined.push_back(wire::CreateInlineBytes(
          builder_, builder_.CreateVector(reinterpret_cast<const uint8_t*>(blob.data()), blob.size())));
    }
    std::vector<Offset<wire::Segment>> segments;
    for (const Segment& segment : segments_)
      segments.push_back(wire::CreateSegment(builder_, segment.offset, segment.pieces.size_bytes()));
    std::vector<Offset<wire::Subsegments>> mutable_segments;
    if (mutable_segment_)
      mutable_segments.push_back(
          wire::CreateSubsegments(builder_, *mutable_segment_, builder_.CreateVector(mutable_offsets_)));
    std::vector<Offset<wire::NamedData>> named;
    for (size_t i = 0; i < named_segments_.size(); ++i)
      named.push_back(wire::CreateNamedData(builder_, builder_.CreateString(program_.named_data[i].key),
                                            named_segments_[i]));

    if (manifest_segment_)
      named.push_back(wire::CreateNamedData(
          builder_, builder_.CreateString(kManifestKey.data(), kManifestKey.size()), *manifest_segment_));

    const auto constants = wire::CreateSubsegments(builder_, 0, builder_.CreateVector(constant_offsets_));
    const auto methods_at = builder_.CreateVector(methods);
    const auto inlined_at = builder_.CreateVector(inlined);
    const auto segments_at = builder_.CreateVector(segments);
    const auto mutable_at = mutable_segments.empty() ? 0 : builder_.CreateVector(mutable_segments);
    const auto named_at = named.empty() ? 0 : builder_.CreateVector(named);
    // The buffer's start must suit whatever is aligned in it, and the header keeps that.
    builder_.Align(16);
    wire::FinishProgramBuffer(builder_, wire::CreateProgram(builder_, /*version=*/0, methods_at,
                                                            /*constant_buffer=*/0, inlined_at, segments_at,
                                                            constants, mutable_at, named_at));
    return ok_status();
  }

  void assemble() {
    const auto flat = std::as_bytes(std::span(builder_.GetBufferPointer(), builder_.GetSize()));
    const bool has_header = segments_end_ != 0;
    std::vector<std::byte>& head = image_.head_;
    head = splice(
        flat, has_header ? round_up(kHeaderBytes, std::max<uint64_t>(16, options_.delegate_alignment)) : 0);
    if (has_header) {
      std::byte* header = head.data() + kHeaderStart;
      std::memcpy(header, "eh00", 4);
      store(header + 4, static_cast<uint32_t>(kHeaderBytes));
      store(header + 8, uint64_t{head.size()});
      store(header + 16, round_up(head.size(), options_.segment_alignment));
      store(header + 24, segments_end_);
    }
    image_.parts_.push_back(head);
    if (!has_header) return;
    uint64_t at = head.size();
    const uint64_t base = round_up(head.size(), options_.segment_alignment);
    image_.zeros_.resize(
        std::max({options_.segment_alignment, options_.constant_alignment, options_.delegate_alignment}));
    if (sealed_) seal();
    for (const Segment& segment : segments_) {
      for (const Pieces::Piece& piece : segment.pieces.pieces()) {
        const uint64_t start = base + segment.offset + piece.offset;
        if (start > at) image_.parts_.push_back(std::span<const std::byte>(image_.zeros_).first(start - at));
        image_.parts_.push_back(piece.bytes);
        at = start + piece.bytes.size();
      }
    }
  }

  struct Segment {
    uint64_t offset;
    Pieces pieces;
  };
  const Program& program_;
  const WriteOptions options_;
  FlatBufferBuilder builder_;
  std::vector<Segment> segments_;
  uint64_t segments_end_ = 0;
  std::vector<uint64_t> constant_offsets_, mutable_offsets_;
  std::optional<uint32_t> mutable_segment_;
  std::vector<DelegateData> delegate_data_;
  std::vector<std::span<const std::byte>> inline_delegates_;
  std::vector<uint32_t> named_segments_;
  std::optional<uint32_t> manifest_segment_;
  std::optional<Sealed> sealed_;
  Image image_;
};

Result<Image> lay_out(const Program& program, const WriteOptions& options) {
  return Writer(program, options).run();
}

Result<std::vector<std::byte>> write(const Program& program, const WriteOptions& options) {
  SF_ASSIGN(const Image image, lay_out(program, options));
  return image.bytes();
}

}  // namespace sixfold::pte
