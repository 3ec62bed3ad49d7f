#include "sixfold/qnn/soc.h"

#include <algorithm>

namespace sixfold::qnn {
namespace {

struct Row {
  uint32_t id;
  const char* name;
  uint32_t htp_arch, vtcm_mb, lpai;
  const char* marketing;
};
// Ids and HTP versions as libraries of SDK 2.51 know them; older ones know fewer. VTCM and LPAI where
// ExecuTorch 1.5 has them.
constexpr Row kRows[] = {
    {30, "SM8350", 68, 4, 0, "888"},        {36, "SM8450", 69, 8, 0, "8 Gen 1"},
    {37, "SC8280X", 68, 0, 0, "8cx Gen 3"}, {39, "SA8295", 68, 8, 0, ""},
    {41, "SM7450", 69, 0, 0, "7 Gen 1"},    {42, "SM8475", 69, 8, 0, "8+ Gen 1"},
    {43, "SM8550", 73, 8, 0, "8 Gen 2"},    {45, "SXR1230P", 73, 2, 0, ""},
    {46, "SSG2115P", 73, 2, 0, ""},         {50, "SM6450", 73, 0, 0, "6 Gen 1"},
    {52, "SA8255", 73, 8, 0, ""},           {53, "SXR2230P", 69, 8, 0, ""},
    {54, "SM7475", 69, 0, 0, "7+ Gen 2"},   {57, "SM8650", 75, 8, 0, "8 Gen 3"},
    {58, "SSG2125P", 73, 2, 0, ""},         {60, "SC8380XP", 73, 8, 0, "X Elite"},
    {61, "SM7435", 73, 0, 0, "7s Gen 2"},   {62, "SA8540", 68, 0, 0, ""},
    {63, "AIC100", 68, 0, 0, ""},           {64, "SM7550", 73, 0, 0, "7 Gen 3"},
    {66, "QCS8550", 73, 0, 0, ""},          {67, "SA8620P", 75, 0, 0, ""},
    {68, "SM8635", 73, 0, 0, "8s Gen 3"},   {69, "SM8750", 79, 8, 0, "8 Elite"},
    {70, "SM7675", 73, 0, 0, "7+ Gen 3"},   {72, "SA8797", 81, 16, 0, ""},
    {73, "SM7635", 73, 0, 0, "7s Gen 3"},   {74, "SM6650", 73, 0, 0, ""},
    {75, "SXR2330P", 79, 8, 0, ""},         {76, "SM6475", 73, 0, 0, ""},
    {77, "QCS9100", 73, 8, 0, ""},          {78, "QCM6690", 73, 0, 0, ""},
    {82, "QCS8300", 75, 0, 0, ""},          {85, "SM8735", 73, 0, 0, "8s Gen 4"},
    {86, "SM7750", 73, 0, 0, ""},           {87, "SM8850", 81, 8, 6, "8 Elite Gen 5"},
    {88, "SC8480XP", 81, 0, 0, ""},         {89, "QCM8538", 73, 0, 0, ""},
    {90, "QCS8625", 75, 0, 0, ""},          {91, "SM7775", 73, 0, 0, ""},
    {92, "SM8850L", 81, 0, 0, ""},          {93, "QCM6490", 68, 2, 0, ""},
    {93, "QCS6490", 68, 2, 0, ""},          {94, "SC8440XP", 81, 0, 0, ""},
    {95, "SAR2230P", 81, 4, 6, ""},         {96, "SW6100", 81, 4, 0, ""},
    {97, "SM8845", 81, 8, 0, ""},           {99, "QCM8838", 81, 0, 0, ""},
    {100, "SAR1165P", 73, 0, 0, ""},        {101, "SAR1180P", 73, 0, 0, ""},
    {102, "CQ7790M", 73, 0, 0, ""},         {103, "SM8975", 85, 0, 0, ""},
    {104, "CQ8725S", 79, 0, 0, ""},         {105, "CQ8750S", 79, 0, 0, ""},
    {109, "QCS8845", 81, 0, 0, ""},         {110, "XRV7200", 81, 0, 0, ""},
    {111, "XRV7205", 81, 0, 0, ""},         {112, "SM8975L", 85, 0, 0, ""},
    {113, "SM8950", 85, 0, 0, ""},          {115, "QMX115", 81, 0, 0, ""},
    {117, "IPQ9650", 81, 0, 0, ""},         {119, "IQX5121", 73, 0, 0, ""},
    {120, "SC8340XP", 73, 0, 0, ""},        {122, "CPN3050", 89, 0, 0, ""},
    {123, "SM7950", 81, 0, 0, ""},
};

char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

std::string upper(std::string_view text) {
  std::string out;
  for (const char c : text) out += upper(c);
  return out;
}

// Insertions, deletions and replacements from one to the other.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

std::string nearest_names(const std::string& name) {
  std::vector<std::pair<size_t, const Soc*>> near;
  for (const Soc& s : socs()) near.emplace_back(distance(name, s.name), &s);
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string text;
  for (size_t i = 0; i < 4; ++i) text += cat(i ? ", " : "", near[i].second->name);
  return text;
}

}  // namespace

const std::vector<Soc>& socs() {
  static const auto* all = [] {
    auto* out = new std::vector<Soc>;
    for (const Row& r : kRows) out->push_back({r.name, r.id, r.htp_arch, r.vtcm_mb, r.lpai, r.marketing});
    return out;
  }();
  return *all;
}

Result<Soc> find_soc(std::string_view name) {
  const std::string wanted = upper(name.substr(0, 64));
  for (const Soc& s : socs())
    if (wanted == s.name || (!s.marketing.empty() && wanted == upper(s.marketing))) return s;
  return invalid_argument("SoC ", name, " is not known; the nearest names are ", nearest_names(wanted),
                          ", and --soc-file adds one");
}

const Soc* find_soc(uint32_t id) {
  for (const Soc& s : socs())
    if (s.id == id) return &s;
  return nullptr;
}

std::string describe_soc(uint32_t id) {
  const Soc* s = find_soc(id);
  return s ? cat(s->name, " (", id, ", HTP v", s->htp_arch, ")") : cat("SoC ", id);
}

}  // namespace sixfold::qnn
