#include "tools/soc_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sixfold/base/mapped_file.h"

namespace sixfold::tools {
namespace {

using Json = nlohmann::json;

// 0 when it is left out and may be.
Result<uint32_t> number(const Json& soc, const char* key, uint32_t least, uint32_t most, bool required) {
  const auto at = soc.find(key);
  if (at == soc.end()) {
    if (required) return invalid_argument("the SoC file has no ", key);
    return 0u;
  }
  if (!at->is_number_unsigned() || at->get<uint64_t>() < least || at->get<uint64_t>() > most)
    return invalid_argument("the SoC file has ", key, " ", at->dump(), ", expected a number from ", least,
                            " to ", most);
  return at->get<uint32_t>();
}

Result<qnn::Soc> parse(std::span<const std::byte> bytes) {
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  const Json soc = Json::parse(text, text + bytes.size(), nullptr, /*allow_exceptions=*/false);
  if (!soc.is_object()) return invalid_argument("the SoC file is no JSON object");
  for (const auto& [key, value] : soc.items())
    if (key != "name" && key != "id" && key != "htp_arch" && key != "vtcm_mb" && key != "lpai" &&
        key != "marketing")
      return invalid_argument("the SoC file has an unknown field ", Json(key).dump());
  qnn::Soc out;
  if (const auto at = soc.find("name"); at != soc.end() && at->is_string()) out.name = at->get<std::string>();
  const bool plain = std::all_of(out.name.begin(), out.name.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
  if (out.name.empty() || out.name.size() > 64 || !plain)
    return invalid_argument("the SoC file has no name of capital letters and digits");
  if (const auto at = soc.find("marketing"); at != soc.end() && at->is_string())
    out.marketing = at->get<std::string>();
  SF_ASSIGN(out.id, number(soc, "id", 1, 65535, /*required=*/true));
  SF_ASSIGN(out.htp_arch, number(soc, "htp_arch", 68, 255, /*required=*/true));
  SF_ASSIGN(out.vtcm_mb, number(soc, "vtcm_mb", 0, 256, /*required=*/false));
  SF_ASSIGN(out.lpai, number(soc, "lpai", 0, 255, /*required=*/false));
  return out;
}

}  // namespace

Result<qnn::Soc> read_soc_file(const std::string& path) {
  SF_ASSIGN(const auto file, MappedFile::open(path));
  Result<qnn::Soc> soc = parse(file->bytes());
  if (!soc.ok()) return soc.take_error().during(cat("reading ", path));
  return soc;
}

Result<qnn::Soc> choose_soc(const std::string& name, const std::string& soc_file) {
  if (soc_file.empty()) return qnn::find_soc(name);
  SF_ASSIGN(qnn::Soc soc, read_soc_file(soc_file));
  if (name.empty() || name == soc.name) return soc;
  return qnn::find_soc(name);
}

}  // namespace sixfold::tools
