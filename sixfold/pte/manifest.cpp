#include "sixfold/pte/manifest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "sixfold/pte/json.h"
#include "sixfold/pte/read.h"

namespace sixfold::pte {
namespace {

constexpr size_t kMostBytes = size_t{1} << 20;
constexpr std::string_view kVersion = "1";
constexpr std::string_view kHash = "xxh3-128";

Status read_text(const JsonValue& object, std::string_view key, std::string& out) {
  const JsonValue* value = object.find(key);
  if (!value || value->kind != JsonValue::Kind::text) return invalid_model("the manifest has no text ", key);
  out = value->text;
  return ok_status();
}

Status read_texts(const JsonValue& object, std::string_view key, std::vector<std::string>& out) {
  const JsonValue* value = object.find(key);
  if (!value || value->kind != JsonValue::Kind::list) return invalid_model("the manifest has no list ", key);
  for (const JsonValue& item : value->items) {
    if (item.kind != JsonValue::Kind::text)
      return invalid_model("the manifest's list ", key, " has more than texts");
    out.push_back(item.text);
  }
  return ok_status();
}

std::string texts(const std::vector<std::string>& items) {
  std::string out = "[";
  for (const std::string& item : items) out += cat(out.size() > 1 ? "," : "", json_text(item));
  return out + "]";
}

std::string digits(XXH128_hash_t hash) {
  std::string out;
  for (const uint64_t half : {uint64_t{hash.high64}, uint64_t{hash.low64}})
    for (int shift = 60; shift >= 0; shift -= 4) out += "0123456789abcdef"[half >> shift & 15];
  return out;
}

}  // namespace

std::string hash_hex(std::span<const std::byte> bytes) {
  return digits(XXH3_128bits(bytes.data(), bytes.size()));
}

Status check_hash(std::span<const std::byte> part, const std::string& expected, std::string_view what) {
  const std::string found = hash_hex(part);
  if (found == expected) return ok_status();
  return invalid_model("the file is damaged: the hash of ", what, " (", part.size(), " bytes) is ", found,
                       ", the manifest has ", expected);
}

HashStream::HashStream() : state_(XXH3_createState()) {
  XXH3_128bits_reset(static_cast<XXH3_state_t*>(state_));
}
HashStream::~HashStream() { XXH3_freeState(static_cast<XXH3_state_t*>(state_)); }
void HashStream::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(static_cast<XXH3_state_t*>(state_), bytes.data(), bytes.size());
}
std::string HashStream::hex() const {
  return digits(XXH3_128bits_digest(static_cast<XXH3_state_t*>(state_)));
}

std::string to_json(const Sealed& sealed) {
  const Manifest& m = sealed.manifest;
  std::string libraries;
  for (const auto& [name, version] : m.libraries)
    libraries += cat(libraries.empty() ? "" : ",", json_text(name), ":", json_text(version));
  return cat("{\"manifest\":", kVersion, ",\"tool\":", json_text(m.tool), ",\"sources\":", texts(m.sources),
             ",\"precision\":", json_text(m.precision), ",\"target\":", json_text(m.target),
             ",\"libraries\":{", libraries, "},\"hash\":", json_text(kHash),
             ",\"program\":", json_text(sealed.program), ",\"segments\":", texts(sealed.segments), "}");
}

Result<Sealed> parse_manifest(std::string_view json) {
  if (json.size() > kMostBytes)
    return invalid_model("the manifest has ", json.size(), " bytes, the limit is ", kMostBytes);
  SF_ASSIGN(const JsonValue root, parse_json(json));
  const JsonValue* version = root.find("manifest");
  if (!version || version->kind != JsonValue::Kind::number)
    return invalid_model("the manifest has no version");
  if (version->text != kVersion)
    return unsupported("the manifest has version ", version->text.substr(0, 20), ", expected ", kVersion);
  Sealed out;
  SF_TRY(read_text(root, "tool", out.manifest.tool));
  SF_TRY(read_texts(root, "sources", out.manifest.sources));
  SF_TRY(read_text(root, "precision", out.manifest.precision));
  SF_TRY(read_text(root, "target", out.manifest.target));
  const JsonValue* libraries = root.find("libraries");
  if (!libraries || libraries->kind != JsonValue::Kind::object)
    return invalid_model("the manifest has no libraries");
  for (size_t i = 0; i < libraries->keys.size(); ++i) {
    if (libraries->items[i].kind != JsonValue::Kind::text)
      return invalid_model("the manifest's libraries have more than texts");
    out.manifest.libraries.emplace_back(libraries->keys[i], libraries->items[i].text);
  }
  std::string hash;
  SF_TRY(read_text(root, "hash", hash));
  if (hash != kHash)
    return unsupported("the manifest's hashes are ", json_text(hash.substr(0, 40)), ", expected ", kHash);
  SF_TRY(read_text(root, "program", out.program));
  SF_TRY(read_texts(root, "segments", out.segments));
  return out;
}

Result<Manifest> check_manifest(std::span<const std::byte> file, const Layout& layout, CheckData check,
                                Sealed* out) {
  if (!layout.manifest) return Manifest{};
  const auto part = [&](const Layout::Segment& where) { return file.subspan(where.offset, where.size); };
  const auto text = part(layout.segments[*layout.manifest]);
  SF_ASSIGN(Sealed sealed, parse_manifest({reinterpret_cast<const char*>(text.data()), text.size()}));
  if (sealed.segments.size() != layout.segments.size())
    return invalid_model("the manifest has ", sealed.segments.size(), " segments, the file has ",
                         layout.segments.size());
  const auto wanted = [&](uint64_t size) { return check == CheckData::all || size <= kSmallPart; };
  if (wanted(layout.program_size))
    SF_TRY(check_hash(file.first(layout.program_size), sealed.program, "the program"));
  for (size_t i = 0; i < layout.segments.size(); ++i)
    if (i != *layout.manifest && wanted(layout.segments[i].size))
      SF_TRY(check_hash(part(layout.segments[i]), sealed.segments[i], cat("segment ", i)));
  if (out) *out = sealed;
  return std::move(sealed.manifest);
}

}  // namespace sixfold::pte
