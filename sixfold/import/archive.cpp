#include "sixfold/import/archive.h"

#include <algorithm>
#include <cstring>

namespace sixfold {
namespace {

constexpr int64_t kMajor = 8, kMinMinor = 14;  // raw weights came with 8.14, torch 2.9
constexpr std::string_view kReads =
    "sixfold reads schema 8.14 and later 8.x, as torch 2.9 to 2.13 write it: export the model again";
constexpr ZipLimits kLimits{.max_members = 1 << 20, .max_inflated_bytes = uint64_t{256} << 20};
// An expanded constant may be larger than its storage, but not by any factor.
constexpr int64_t kMaxExpandedBytes = int64_t{1} << 30;

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  return text.substr(0, 40);
}

Result<std::string> read_text(const ZipReader& zip, const ZipMember& member) {
  SF_ASSIGN(const OwnedBytes data, zip.read(member, /*check_crc=*/true));
  return std::string(trimmed(as_text(data.bytes)));
}

// The one folder that everything is in: the file's stem, or "archive".
Result<std::string> find_root(const ZipReader& zip) {
  for (const ZipMember& m : zip.members()) {
    const size_t slash = m.name.find('/');
    if (slash != std::string::npos && std::string_view(m.name).substr(slash) == "/archive_format")
      return m.name.substr(0, slash + 1);
  }
  if (zip.find("serialized_exported_program.json")) {
    std::string version = "unknown";
    if (const ZipMember* m = zip.find("version")) {
      SF_ASSIGN(version, read_text(zip, *m));
    }
    return unsupported("the .pt2 has schema ", version, " in the container of torch 2.7 and older; ", kReads);
  }
  return invalid_model("the zip archive is not a .pt2: it has no archive_format member");
}

bool is_row_major(const Shape& shape, const Shape& strides) {
  const Shape rows = contiguous_strides(shape);
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] != 1 && strides[i] != rows[i]) return false;
  return true;
}

// Elements from the first to one past the last that a strided tensor touches; -1 when that is not a sane
// number.
__int128 reach(const Shape& shape, const Shape& strides) {
  __int128 last = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return 0;
    if (strides[i] < 0) return -1;
    last += static_cast<__int128>(shape[i] - 1) * strides[i];
  }
  return last + 1;
}

}  // namespace

Result<Pt2Archive> Pt2Archive::open(OwnedBytes file, std::string_view model, bool check_crc) {
  Pt2Archive out;
  out.check_crc_ = check_crc;
  SF_ASSIGN(out.zip_, ZipReader::open(std::move(file), kLimits));
  SF_ASSIGN(out.root_, find_root(out.zip_));
  struct Fact {
    const char* member;
    const char* expected;
    bool required;
  };
  for (const auto& [name, expected, required] :
       {Fact{"archive_format", "pt2", true}, Fact{"archive_version", "0", true},
        Fact{"byteorder", "little", false}}) {
    const ZipMember* member = out.zip_.find(out.root_ + name);
    if (!member && !required) continue;
    if (!member) return invalid_model("the .pt2 has no ", name, " member");
    SF_ASSIGN(const std::string found, read_text(out.zip_, *member));
    if (found != expected)
      return unsupported("the .pt2 has ", name, " '", found, "', expected '", expected, "'");
  }
  SF_ASSIGN(out.model_, out.choose_model(model));
  SF_TRY(out.read_program());
  SF_TRY(out.read_config("data/weights/", "_weights_config.json"));
  SF_TRY(out.read_config("data/constants/", "_constants_config.json"));
  return out;
}

Result<std::string> Pt2Archive::choose_model(std::string_view wanted) const {
  std::vector<std::string> names;
  const std::string folder = root_ + "models/";
  for (const ZipMember& m : zip_.members()) {
    const std::string_view name = m.name;
    if (name.starts_with(folder) && name.ends_with(".json"))
      names.emplace_back(name.substr(folder.size(), name.size() - folder.size() - 5));
  }
  if (names.empty()) return invalid_model("the .pt2 has no program: no member ", folder, "*.json");
  const auto has = [&](std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  std::string all;
  for (const std::string& name : names) all += cat(all.empty() ? "" : ", ", name);
  if (!wanted.empty()) {
    if (!has(wanted)) return invalid_argument("the .pt2 has no model named ", wanted, "; it has ", all);
    return std::string(wanted);
  }
  if (names.size() == 1) return names[0];
  if (has("model")) return std::string("model");
  return invalid_argument("the .pt2 has several models, name one: ", all);
}

Status Pt2Archive::read_program() {
  const std::string name = cat("models/", model_, ".json");
  SF_ASSIGN(const OwnedBytes data, zip_.read(*zip_.find(root_ + name), /*check_crc=*/true));
  program_bytes_ = data.bytes.size();
  SF_ASSIGN(program_, JsonDocument::parse(data.bytes, name));
  SF_ASSIGN(const Json version, program().get("schema_version"));
  SF_ASSIGN(const Json major, version.get("major"));
  SF_ASSIGN(version_.major, major.integer());
  SF_ASSIGN(const Json minor, version.get("minor"));
  SF_ASSIGN(version_.minor, minor.integer());
  if (version_.major != kMajor || version_.minor < kMinMinor)
    return unsupported("the .pt2 has schema ", version_.major, ".", version_.minor, "; ", kReads);
  return ok_status();
}

Status Pt2Archive::read_config(std::string_view folder, std::string_view kind) {
  const std::string name = cat(folder, model_, kind);
  const ZipMember* member = zip_.find(root_ + name);
  if (!member) return invalid_model("the .pt2 has no member ", root_, name);
  SF_ASSIGN(const OwnedBytes data, zip_.read(*member, /*check_crc=*/true));
  SF_ASSIGN(JsonDocument document, JsonDocument::parse(data.bytes, name));
  configs_.push_back(std::move(document));
  SF_ASSIGN(const Json config, configs_.back().root().get("config"));
  SF_ASSIGN(const auto entries, config.members());
  for (const auto& [tensor, entry] : entries)
    if (!payloads_.emplace(std::string(tensor), Payload{entry, folder}).second)
      return invalid_model("tensor ", tensor, " is listed twice in the .pt2");
  return ok_status();
}

Result<Tensor> Pt2Archive::tensor(std::string_view name) const {
  const auto found = payloads_.find(name);
  if (found == payloads_.end()) return invalid_model("tensor ", name, " has no data in the .pt2");
  auto out = read_tensor(name, found->second.entry);
  if (!out.ok()) return out.take_error().during(cat("reading tensor ", name));
  return out;
}

Result<Tensor> Pt2Archive::read_tensor(std::string_view name, const Json& entry) const {
  SF_ASSIGN(const std::optional<Json> pickled, entry.find("use_pickle"));
  bool is_pickled = false;
  if (pickled) {
    SF_ASSIGN(is_pickled, pickled->flag());
  }
  if (is_pickled)
    return unsupported("tensor ", name, " is stored as a Python pickle (a tensor subclass or custom object)");
  SF_ASSIGN(const Json meta_json, entry.get("tensor_meta"));
  SF_ASSIGN(const TensorMeta meta, read_tensor_meta(meta_json));
  const Type& type = meta.type;
  if (!is_static(type.dims) || !is_static(meta.strides) || !meta.storage_offset.is_static())
    return invalid_model("tensor ", name, " has symbolic sizes");
  const std::string storage = storage_of(name);
  const ZipMember* member = zip_.find(storage);
  if (!member) return invalid_model("the storage ", storage, " of tensor ", name, " is missing");
  SF_ASSIGN(const OwnedBytes data, zip_.read(*member, check_crc_ && !checked_.contains(member)));
  if (check_crc_) checked_.insert(member);

  Tensor out{type.dtype, static_shape(type.dims), static_shape(meta.strides), nullptr, data.owner};
  const auto element = static_cast<__int128>(size_of(type.dtype));
  const __int128 offset = meta.storage_offset.value();
  const __int128 elements = reach(out.shape, out.strides);
  if (elements < 0 || offset < 0) return invalid_model("tensor ", name, " has a negative stride or offset");
  const bool fits =
      elements == 0 || (offset + elements) * element <= static_cast<__int128>(data.bytes.size());
  if (!fits)
    return invalid_model("tensor ", name, " of ", type, " needs ",
                         static_cast<int64_t>(std::min<__int128>((offset + elements) * element, kMaxDim)),
                         " bytes, its storage ", storage, " has ", data.bytes.size());
  if (static_cast<__int128>(out.count()) * element >
      std::max<__int128>(static_cast<__int128>(data.bytes.size()), kMaxExpandedBytes))
    return unsupported("tensor ", name, " of ", type, " expands ", data.bytes.size(), " bytes too far");
  out.data = data.bytes.data() + (elements == 0 ? 0 : static_cast<int64_t>(offset * element));
  if (type.dtype == DType::boolean) {
    Status bools = check_bools({out.data, static_cast<size_t>(elements)});
    if (!bools.ok()) return bools.take_error().during(cat("reading tensor ", name));
  }
  if (elements == 0 || is_row_major(out.shape, out.strides)) out.strides.clear();
  // torch aligns to 64 bytes; another writer of zip files need not.
  if (reinterpret_cast<uintptr_t>(out.data) % size_of(type.dtype) != 0) {
    if (!out.is_contiguous()) return to_contiguous(out);
    std::byte* bytes = nullptr;
    Tensor copy = Tensor::allocate(out.dtype, out.shape, &bytes);
    std::memcpy(bytes, out.data, out.size_bytes());
    return copy;
  }
  return out;
}

std::string Pt2Archive::storage_of(std::string_view name) const {
  const auto found = payloads_.find(name);
  if (found == payloads_.end()) return "";
  const auto path = found->second.entry.get("path_name");
  if (!path.ok()) return "";
  const auto text = path->text();
  return text.ok() ? cat(root_, found->second.folder, *text) : "";
}

}  // namespace sixfold
