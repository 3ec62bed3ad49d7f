// For tests: where the numbers, offsets, lengths and vtables of a .pte's flatbuffer lie, and changes to them
// that keep the rest of the file right.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "sixfold/pte/header.h"
#include "sixfold/pte/manifest.h"
#include "sixfold/pte/mutate.h"
#include "sixfold/pte/read.h"

namespace sixfold::pte {

struct Field {
  enum Kind : uint8_t { number, offset, length, vtable } kind;
  uint8_t width;  // bytes
  size_t at;      // in the file
};

// Slots of each table of pte.fbs: a digit is a number of so many bytes, "s" a string, "[8" a list of numbers,
// "[X" of tables, "=X" a table, "|" a union, whose tables follow by tag.
class FieldWalker {
 public:
  static std::vector<Field> fields_of(std::span<const std::byte> file) {
    FieldWalker walker(file);
    walker.follow(0, "=Program");
    return std::move(walker.fields_);
  }

 private:
  using Slots = std::vector<std::string_view>;
  static const std::map<std::string_view, Slots>& tables() {
    static const std::map<std::string_view, Slots> all = {
        {"Program",
         {"4", "[Method", "[InlineBytes", "[InlineBytes", "[Segment", "=Subsegments", "[Subsegments",
          "[NamedData"}},
        {"Method",
         {"s", "=Structure", "[Value", "[4", "[4", "[Chain", "[Operator", "[Delegate", "[8",
          "[BufferDevice"}},
        {"Structure", {"s", "s"}},
        {"Value",
         {"1", "|Null Int Bool Double Tensor String IntList DoubleList BoolList IndexList IndexList"}},
        {"Tensor", {"1", "4", "[4", "[1", "1", "4", "=Allocation", "1", "1", "=TensorExtra"}},
        {"Allocation", {"4", "4", "4"}},
        {"TensorExtra", {"8", "s", "1", "1", "1"}},
        {"Null", {}},
        {"Int", {"8"}},
        {"Bool", {"1"}},
        {"Double", {"8"}},
        {"String", {"s"}},
        {"IntList", {"[8"}},
        {"DoubleList", {"[8"}},
        {"BoolList", {"[1"}},
        {"IndexList", {"[4"}},
        {"Chain", {"[4", "[4", "[Instruction", "[Frames"}},
        {"Frames", {}},
        {"Instruction", {"1", "|KernelCall KernelCall Move Move Free"}},
        {"KernelCall", {"4", "[4"}},
        {"Move", {"4", "4"}},
        {"Free", {"4"}},
        {"Operator", {"s", "s"}},
        {"Delegate", {"s", "=DataReference", "[CompileSpec"}},
        {"DataReference", {"1", "4"}},
        {"CompileSpec", {"s", "[1"}},
        {"BufferDevice", {"4", "1", "1"}},
        {"InlineBytes", {"[1"}},
        {"Segment", {"8", "8"}},
        {"Subsegments", {"4", "[8"}},
        {"NamedData", {"s", "4"}},
    };
    return all;
  }

  explicit FieldWalker(std::span<const std::byte> file) : file_(file) {}

  template <typename T>
  T get(size_t at) const {
    return load<T>(file_.data() + at);
  }

  void follow(size_t at, std::string_view what) {
    fields_.push_back({Field::offset, 4, at});
    const size_t to = at + get<uint32_t>(at);
    if (what[0] == '=') return table(to, what.substr(1));
    fields_.push_back({Field::length, 4, to});
    const size_t n = get<uint32_t>(to);
    if (what == "s") {
      for (size_t i = 0; i < n; ++i) fields_.push_back({Field::number, 1, to + 4 + i});
    } else if (what[1] >= '0' && what[1] <= '9') {
      const auto width = static_cast<uint8_t>(what[1] - '0');
      for (size_t i = 0; i < n; ++i) fields_.push_back({Field::number, width, to + 4 + i * width});
    } else {
      for (size_t i = 0; i < n; ++i) follow_item(to + 4 + 4 * i, what.substr(1));
    }
  }
  void follow_item(size_t at, std::string_view name) {
    fields_.push_back({Field::offset, 4, at});
    table(at + get<uint32_t>(at), name);
  }

  void table(size_t at, std::string_view name) {
    if (!seen_.insert(at).second) return;
    const size_t vtable = at - static_cast<size_t>(int64_t{get<int32_t>(at)});
    fields_.push_back({Field::offset, 4, at});  // to the vtable
    const size_t slots = get<uint16_t>(vtable) / 2;
    if (seen_.insert(vtable).second)
      for (size_t i = 0; i < slots; ++i) fields_.push_back({Field::vtable, 2, vtable + 2 * i});
    const Slots& kinds = tables().at(name);
    uint8_t tag = 0;
    for (size_t i = 0; i < kinds.size() && i + 2 < slots; ++i) {
      const size_t slot = get<uint16_t>(vtable + 4 + 2 * i);
      if (slot == 0) continue;
      const std::string_view kind = kinds[i];
      if (kind[0] >= '0' && kind[0] <= '9') {
        fields_.push_back({Field::number, static_cast<uint8_t>(kind[0] - '0'), at + slot});
        if (kind == "1") tag = get<uint8_t>(at + slot);
      } else if (kind[0] == '|') {
        std::string_view names = kind.substr(1);
        for (uint8_t k = 1; k < tag; ++k) names.remove_prefix(names.find(' ') + 1);
        follow_item(at + slot, names.substr(0, names.find(' ')));
      } else {
        follow(at + slot, kind);
      }
    }
  }

  std::span<const std::byte> file_;
  std::vector<Field> fields_;
  std::set<size_t> seen_;
};

inline uint64_t get_field(std::span<const std::byte> file, const Field& f) {
  uint64_t value = 0;
  std::memcpy(&value, file.data() + f.at, f.width);
  return value;
}
inline void set_field(std::span<std::byte> file, const Field& f, uint64_t value) {
  std::memcpy(file.data() + f.at, &value, f.width);
}

// Another number of the same width, which may be right elsewhere.
inline uint64_t other_number(Rng& rng, std::span<const std::byte> file, const Field& f,
                             const std::vector<Field>& fields) {
  const uint64_t value = get_field(file, f);
  const uint64_t top = uint64_t{1} << (8 * f.width - 1);
  const Field& other = fields[below(rng, fields.size())];
  switch (below(rng, 10)) {
    case 0:
      return value + 1;
    case 1:
      return value - 1;
    case 2:
      return top - 1;
    case 3:
      return top;
    case 4:
      return ~uint64_t{0};
    case 5:
      return 2 * value;
    case 6:
      return below(rng, 16);
    case 7:
      return rng();
    case 8:
      // An offset that leads where another one leads: a table of another kind, or shared.
      if (f.kind == Field::offset && other.kind == Field::offset)
        return other.at + get_field(file, other) - f.at;
      return other.width == f.width ? get_field(file, other) : 0;
    default:
      return f.kind == Field::offset ? below(rng, file.size()) - f.at : 0;
  }
}

// The manifest with the hashes that the file has now, where it has one of the same size.
inline void reseal(std::span<std::byte> file) {
  Layout layout;
  const auto program = read(file, {}, &layout);
  if (!program.ok() || !layout.manifest) return;
  const auto at = layout.segments[*layout.manifest];
  const auto text = file.subspan(at.offset, at.size);
  auto sealed = parse_manifest({reinterpret_cast<const char*>(text.data()), text.size()});
  if (!sealed.ok() || sealed->segments.size() != layout.segments.size()) return;
  sealed->program = hash_hex(file.first(layout.program_size));
  for (size_t i = 0; i < layout.segments.size(); ++i)
    if (i != *layout.manifest)
      sealed->segments[i] = hash_hex(file.subspan(layout.segments[i].offset, layout.segments[i].size));
  const std::string json = to_json(*sealed);
  if (json.size() == text.size()) std::memcpy(text.data(), json.data(), json.size());
}

// A file whose structure was changed: one to three fields of its flatbuffer, its header, its end, bytes put
// in or taken out, its manifest's text. Half of them carry hashes that fit.
inline AlignedBytes damaged_structure(Rng& rng, std::span<const std::byte> whole,
                                      const std::vector<Field>& fields) {
  const size_t way = below(rng, 16);
  if (way == 0) return AlignedBytes(whole.first(below(rng, whole.size())));
  if (way == 1) {  // everything behind a place moves
    std::vector<std::byte> bytes(whole.begin(), whole.end());
    const size_t at = below(rng, bytes.size()), n = size_t{1} << below(rng, 9);
    const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    if (below(rng, 2))
      bytes.insert(place, n, std::byte{0});
    else
      bytes.erase(place, place + static_cast<std::ptrdiff_t>(std::min(n, bytes.size() - at)));
    return AlignedBytes(bytes);
  }
  AlignedBytes file(whole);
  const std::span<std::byte> bytes = file.bytes();
  if (way == 2) {  // the extended header
    static constexpr Field kHeader[] = {{Field::number, 4, 8},
                                        {Field::length, 4, 12},
                                        {Field::number, 8, 16},
                                        {Field::number, 8, 24},
                                        {Field::number, 8, 32}};
    const Field& f = kHeader[below(rng, std::size(kHeader))];
    const uint64_t sizes[] = {bytes.size(), bytes.size() + 1, bytes.size() - 1, 0, 64, 128};
    set_field(bytes, f,
              below(rng, 2) ? other_number(rng, bytes, f, fields) : sizes[below(rng, std::size(sizes))]);
  } else if (way == 3) {  // the manifest, the last segment of our files
    const size_t from = bytes.size() - std::min<size_t>(bytes.size(), 512);
    for (size_t n = 1 + below(rng, 3); n > 0; --n)
      bytes[from + below(rng, bytes.size() - from)] =
          static_cast<std::byte>("{}[]\",:0129\\u \x80\xff"[below(rng, 17)]);
  } else {
    for (size_t n = 1 + below(rng, 3); n > 0; --n) {
      const Field& f = fields[below(rng, fields.size())];
      set_field(bytes, f, other_number(rng, bytes, f, fields));
    }
  }
  if (below(rng, 2)) reseal(bytes);
  return file;
}

}  // namespace sixfold::pte
