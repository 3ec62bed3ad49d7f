#include "sixfold/pte/read.h"

#include <algorithm>

#include "sixfold/base/small_sort.h"
#include "sixfold/pte/check.h"
#include "sixfold/pte/header.h"
#include "sixfold/pte/manifest.h"
#include "sixfold/pte/pte_generated.h"
#include "sixfold/pte/read_method.h"
#include "sixfold/pte/wire.h"

namespace sixfold::pte {
namespace {

using flatbuffers::Offset;
using flatbuffers::Vector;

Status check_segments(const Vector<Offset<wire::Segment>>* segments, const Header& header,
                      const Limits& limits, Layout& layout) {
  if (count(segments) > limits.segments)
    return invalid_model("the program has ", count(segments), " segments, the limit is ", limits.segments);
  const uint64_t available = header.segment_base == 0    ? 0
                             : header.segment_bytes != 0 ? header.segment_bytes
                                                         : layout.file_size - header.segment_base;
  uint64_t end = 0;
  for (size_t i = 0; i < count(segments); ++i) {
    const wire::Segment* segment = segments->Get(static_cast<uint32_t>(i));
    SF_TRY(check_segment(i, segment->offset(), segment->size(), available, end));
    layout.segments.push_back({header.segment_base + segment->offset(), segment->size(), {}});
  }
  return ok_status();
}

// Each entry reaches to the end of the segment until its tensors are known.
Status read_offsets(const wire::Subsegments& table, std::string_view what, std::string_view content,
                    ProgramBytes& bytes, std::vector<std::span<const std::byte>>& out, Budget& budget) {
  std::vector<uint64_t> offsets;
  SF_TRY(budget.copy(table.offsets(), offsets));
  if (offsets.empty()) return ok_status();
  out.resize(1);
  if (offsets.size() == 1) return ok_status();
  SF_ASSIGN(const auto segment, bytes.segment(table.segment_index(), content));
  for (size_t i = 1; i < offsets.size(); ++i) {
    if (offsets[i] > segment.size())
      return invalid_model(what, " ", i, " begins at byte ", offsets[i], " of segment ",
                           table.segment_index(), ", which has ", segment.size());
    out.push_back(segment.subspan(offsets[i]));
  }
  return ok_status();
}

Status read_data(const wire::Program& root, ProgramBytes& bytes, Budget& budget, Program& program) {
  if (const auto* table = root.constant_segment())
    SF_TRY(read_offsets(*table, "constant", "constants", bytes, program.constants, budget));
  if (program.constants.size() < 2 && count(root.constant_buffer()) > 0) {
    program.constants.clear();
    for (const wire::InlineBytes* buffer : *root.constant_buffer())
      program.constants.push_back(bytes_of(buffer->data()));
    program.constants[0] = {};
  }
  if (count(root.mutable_segments()) > 1)
    return unsupported("the program has ", root.mutable_segments()->size(),
                       " mutable data segments, expected at most 1");
  if (count(root.mutable_segments()) == 1)
    SF_TRY(read_offsets(*root.mutable_segments()->Get(0), "initial value", "initial values", bytes,
                        program.mutable_data, budget));
  return ok_status();
}

// The manifest is about the file, not a part of the program.
Status read_named_data(const wire::Program& root, ProgramBytes& bytes, const Limits& limits, Budget& budget,
                       Program& program, Layout& layout) {
  const size_t n = count(root.named_data());
  if (n > limits.named_data)
    return invalid_model("the program has ", n, " named data, the limit is ", limits.named_data);
  for (size_t i = 0; i < n; ++i) {
    const wire::NamedData* item = root.named_data()->Get(static_cast<uint32_t>(i));
    NamedData& out = program.named_data.emplace_back();
    SF_TRY(budget.copy(item->key(), out.key));
    SF_ASSIGN(out.data, bytes.segment(item->segment_index(), "named data"));
    if (out.key != kManifestKey) continue;
    if (layout.manifest) return invalid_model("the file has two manifests");
    layout.manifest = item->segment_index();
    program.named_data.pop_back();
  }
  return ok_status();
}

// Lengths of data that tensors share: the longest that is there. verify() reports those that are not.
void cut_data(Program& program) {
  std::vector<uint64_t> constants(program.constants.size()), mutable_data(program.mutable_data.size());
  const auto use = [](std::vector<uint64_t>& used, const std::vector<std::span<const std::byte>>& data,
                      uint32_t index, uint64_t bytes) {
    if (index < data.size() && bytes <= data[index].size()) used[index] = std::max(used[index], bytes);
  };
  for (const Method& method : program.methods) {
    for (const Value& value : method.values) {
      const auto* tensor = std::get_if<Tensor>(&value);
      if (!tensor || tensor->data_index == 0 || tensor->location != Location::segment) continue;
      const auto bytes = size_bytes(*tensor);
      if (!bytes) continue;
      if (tensor->allocation)
        use(mutable_data, program.mutable_data, tensor->data_index, *bytes);
      else
        use(constants, program.constants, tensor->data_index, *bytes);
    }
  }
  for (size_t i = 0; i < constants.size(); ++i)
    program.constants[i] = program.constants[i].first(constants[i]);
  for (size_t i = 0; i < mutable_data.size(); ++i)
    program.mutable_data[i] = program.mutable_data[i].first(mutable_data[i]);
}

// Two constants may be the same bytes, which is how equal ones are stored, but no others' neighbours.
Status check_overlaps(const std::vector<std::span<const std::byte>>& data, std::string_view what) {
  std::vector<size_t> order;
  for (size_t i = 1; i < data.size(); ++i)
    if (!data[i].empty()) order.push_back(i);
  sort_small(order, [&](size_t a, size_t b) {
    return data[a].data() != data[b].data() ? data[a].data() < data[b].data() : a < b;
  });
  for (size_t i = 1; i < order.size(); ++i) {
    const auto before = data[order[i - 1]], here = data[order[i]];
    if (here.data() != before.data() && before.data() + before.size() > here.data())
      return invalid_model(what, " ", order[i], " begins inside ", what, " ", order[i - 1], ", at its byte ",
                           here.data() - before.data(), " of ", before.size());
  }
  return ok_status();
}

}  // namespace

Result<std::span<const std::byte>> ProgramBytes::segment(uint64_t index, std::string_view content) {
  if (index >= layout.segments.size())
    return invalid_model(content, ": segment ", index, " does not exist, the program has ",
                         layout.segments.size());
  // One blob may serve many delegates or many names, but a segment has one kind of content.
  Layout::Segment& segment = layout.segments[index];
  if (!segment.content.empty() && segment.content != content)
    return invalid_model("segment ", index, " has both ", segment.content, " and ", content);
  segment.content = content;
  if (segment.size == 0) return std::span<const std::byte>{};
  return file.subspan(segment.offset, segment.size);
}

Result<Program> read(std::span<const std::byte> file, const Limits& limits, Layout* layout_out) {
  SF_TRY(check_start(file, ".pte"));
  SF_ASSIGN(const Header header, read_header(file));
  SF_ASSIGN(const auto* table,
            verified_root<wire::Program>(file.first(header.program_size), limits, wire::VerifyProgramBuffer));
  const wire::Program& root = *table;
  if (root.version() != 0) return unsupported("the program has version ", root.version(), ", expected 0");

  Layout layout{.file_size = file.size(),
                .program_size = header.program_size,
                .segment_base = header.segment_base,
                .segment_bytes = header.segment_bytes};
  SF_TRY(check_segments(root.segments(), header, limits, layout));
  ProgramBytes bytes{.file = file, .layout = layout, .inline_delegates = root.inline_delegates()};
  Budget budget(header.program_size);
  Program program;
  SF_TRY(read_data(root, bytes, budget, program));
  SF_TRY(read_methods(root, bytes, limits, budget, program));
  SF_TRY(read_named_data(root, bytes, limits, budget, program, layout));
  cut_data(program);
  SF_TRY(check_overlaps(program.constants, "constant"));
  SF_TRY(check_overlaps(program.mutable_data, "initial value"));
  if (layout_out) *layout_out = std::move(layout);
  return program;
}

}  // namespace sixfold::pte
