#include "sixfold/qnn/reason.h"

#include <algorithm>
#include <charconv>

namespace sixfold::qnn {
namespace {

bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

// Lines that stand in every refusal and say only that it is one.
bool says_nothing(std::string_view line) {
  for (const std::string_view part :
       {"Op specific validation failed", "validateNativeOps", "QnnBackend_validateOpConfig failed",
        "Failed to validate op", "Please refer to", "unexpected GraphHtpSettings"})
    if (contains(line, part)) return true;
  return line.empty();
}

// "in[0]:QNN_DATATYPE_FLOAT_16 (optional)" for each operand, in order.
struct TypeSet {
  std::vector<std::pair<std::string, std::string>> types;  // "in[0]", "FLOAT_16"
};

// Sets are lists of such lines; "2:" begins another.
std::vector<TypeSet> parse_sets(std::string_view text) {
  constexpr std::string_view kMark = ":QNN_DATATYPE_";
  std::vector<TypeSet> sets;
  sets.emplace_back();
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    const size_t mark = line.find(kMark);
    if (mark == line.npos) {
      // Absent optional operands have lines of another form.
      if (!line.empty() && line.front() >= '0' && line.front() <= '9' && !sets.back().types.empty())
        sets.emplace_back();
      continue;
    }
    const std::string_view type = line.substr(mark + kMark.size());
    sets.back().types.emplace_back(line.substr(0, mark), type.substr(0, type.find_first_of(" \r")));
  }
  return sets;
}

// Operands of which the two differ, with the type of the second.
TypeSet difference(const TypeSet& asked, const TypeSet& offered) {
  TypeSet out;
  for (const auto& mine : asked.types)
    for (const auto& theirs : offered.types)
      if (theirs.first == mine.first && theirs.second != mine.second) out.types.push_back(theirs);
  return out;
}

std::string to_text(const TypeSet& set) {
  std::string text;
  for (const auto& [place, type] : set.types) text += cat(text.empty() ? "" : ", ", place, " ", type);
  return text;
}

// "Unsupported input/output datatypes": the set asked for, and all that there are.
std::string type_refusal(std::span<const std::string> lines) {
  TypeSet asked, nearest;
  std::vector<TypeSet> offered;
  for (const std::string& line : lines) {
    std::vector<TypeSet> sets = parse_sets(line);
    if (line.starts_with("Requested") && !sets.empty()) asked = sets.front();
    if (line.starts_with("Supported")) offered.insert(offered.end(), sets.begin(), sets.end());
  }
  // Bfloats are there for some chips only, and nothing of ours has them.
  const auto has_bfloat = [](const TypeSet& set) {
    return std::any_of(set.types.begin(), set.types.end(),
                       [](const auto& t) { return contains(t.second, "BFLOAT"); });
  };
  for (const TypeSet& set : offered) {
    if (has_bfloat(set)) continue;
    TypeSet other = difference(asked, set);
    if (nearest.types.empty() || (!other.types.empty() && other.types.size() < nearest.types.size()))
      nearest = std::move(other);
  }
  std::string text = cat("it does not take ", to_text(asked));
  if (!nearest.types.empty()) text += cat("; the nearest that it takes has ", to_text(nearest));
  return text;
}

std::string place_of(uint32_t id) {
  const bool output = id >= kOutputIds;
  return cat(output ? "out[" : "in[", id - (output ? kOutputIds : kInputIds), "]");
}

// "Tensor 1" -> "in[0]"; "0x408" -> "UFIXED_POINT_8". Everything else stays.
std::string in_words(std::string_view line) {
  std::string out;
  bool after_tensor = false;  // "Tensor 1 and 65537": both are ids
  while (!line.empty()) {
    const size_t end = std::min(line.find(' '), line.size());
    std::string_view word = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
    uint32_t id = 0;
    const auto is_id = std::from_chars(word.data(), word.data() + word.size(), id);
    const bool number = !word.empty() && is_id.ptr == word.data() + word.size();
    if (word == "Tensor") {
      after_tensor = true;
      continue;
    }
    std::string piece(word);
    if (after_tensor && number) {
      piece = place_of(id);
    } else if (word.starts_with("0x")) {
      const size_t digits = word.find_last_not_of(".,;") + 1;
      uint32_t type = 0;
      std::from_chars(word.data() + 2, word.data() + digits, type, 16);
      if (const auto t = static_cast<DataType>(type); size_of(t) > 0)
        piece = cat(qnn::to_text(t), word.substr(digits));
    } else if (word != "and") {
      if (after_tensor && out.empty()) out = "tensor";
      after_tensor = false;
    }
    out += cat(out.empty() ? "" : " ", piece);
  }
  while (!out.empty() && (out.back() == '.' || out.back() == ' ')) out.pop_back();
  return out;
}

// "[4294967295] has incorrect Value 68, expected >= 73": a number that is no operand's. Small ones are the
// HTP version.
std::string without_place(std::string_view line) {
  constexpr std::string_view kNoPlace = "[4294967295] has incorrect Value ", kLeast = ", expected >= ";
  if (!line.starts_with(kNoPlace)) return std::string(line);
  line.remove_prefix(kNoPlace.size());
  const size_t least = line.find(kLeast);
  if (least == line.npos) return cat("a value is ", line);
  uint32_t have = 0, need = 0;
  std::from_chars(line.data(), line.data() + least, have);
  const std::string_view rest = line.substr(least + kLeast.size());
  std::from_chars(rest.data(), rest.data() + rest.size(), need);
  if (need < 65 || need > 100) return cat("a value is ", line);
  return cat("needs HTP v", need, " or later, the SoC has v", have);
}

}  // namespace

std::string refusal(std::span<const std::string> lines) {
  for (const std::string& line : lines)
    if (contains(line, "Unsupported input/output datatypes")) return type_refusal(lines);
  for (const std::string& line : lines)
    if (!says_nothing(line)) return without_place(in_words(line));
  return "";
}

}  // namespace sixfold::qnn
