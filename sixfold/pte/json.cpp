#include "sixfold/pte/json.h"

#include <algorithm>

namespace sixfold::pte {
namespace {

constexpr int kMostLevels = 16;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<JsonValue> run() {
    JsonValue value;
    SF_TRY(parse(value, 0));
    skip_space();
    if (at_ != text_.size()) return bad("the end");
    return value;
  }

 private:
  Error bad(std::string_view expected) const {
    return invalid_model("JSON is damaged: expected ", expected, " at byte ", at_, " of ", text_.size());
  }
  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos)
      ++at_;
  }
  bool accept(std::string_view token) {
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  Status parse(JsonValue& out, int level) {
    if (level > kMostLevels) return invalid_model("JSON is nested deeper than ", kMostLevels, " levels");
    skip_space();
    if (accept("{")) return parse_items(out, level, '}');
    if (accept("[")) return parse_items(out, level, ']');
    if (accept("\"")) {
      out.kind = JsonValue::Kind::text;
      return parse_text(out.text);
    }
    if (accept("null")) return ok_status();
    for (const std::string_view word : {"true", "false"}) {
      if (!accept(word)) continue;
      out = {.kind = JsonValue::Kind::boolean, .text = std::string(word)};
      return ok_status();
    }
    return parse_number(out);
  }

  Status parse_items(JsonValue& out, int level, char end) {
    const bool object = end == '}';
    out.kind = object ? JsonValue::Kind::object : JsonValue::Kind::list;
    skip_space();
    if (accept({&end, 1})) return ok_status();
    while (true) {
      if (object) {
        skip_space();
        if (!accept("\"")) return bad("a key");
        SF_TRY(parse_text(out.keys.emplace_back()));
        skip_space();
        if (!accept(":")) return bad("':'");
      }
      SF_TRY(parse(out.items.emplace_back(), level + 1));
      skip_space();
      if (accept({&end, 1})) return ok_status();
      if (!accept(",")) return bad("',' or an end");
    }
  }

  // Escapes above 0x7f are not in our files: everything but control characters is written as it is.
  Status parse_text(std::string& out) {
    constexpr std::string_view kShort = "\"\\/bfnrt", kMeans = "\"\\/\b\f\n\r\t";
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"') return ok_status();
      if (static_cast<unsigned char>(c) < 32) break;
      if (c != '\\') {
        out += c;
        continue;
      }
      if (at_ == text_.size()) break;
      const char escape = text_[at_++];
      if (const size_t which = kShort.find(escape); which != std::string_view::npos) {
        out += kMeans[which];
        continue;
      }
      unsigned code = 0;
      for (int i = 0; i < 4; ++i) {
        const size_t digit = escape == 'u' && at_ < text_.size()
                                 ? std::string_view("0123456789abcdefABCDEF").find(text_[at_++])
                                 : std::string_view::npos;
        if (digit == std::string_view::npos) return bad("four hexadecimal digits");
        code = code << 4 | static_cast<unsigned>(digit < 16 ? digit : digit - 6);
      }
      if (code > 0x7f) return bad("a character up to 0x7f");
      out += static_cast<char>(code);
    }
    return bad("the end of a text");
  }

  Status parse_number(JsonValue& out) {
    const size_t start = at_;
    accept("-");
    const auto digits = [&] {
      const size_t first = at_;
      while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
      return at_ > first;
    };
    if (!digits()) return bad("a value");
    if (accept(".") && !digits()) return bad("a digit");
    if (accept("e") || accept("E")) {
      if (!accept("+")) accept("-");
      if (!digits()) return bad("a digit");
    }
    out = {.kind = JsonValue::Kind::number, .text = std::string(text_.substr(start, at_ - start))};
    return ok_status();
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

const JsonValue* JsonValue::find(std::string_view key) const {
  const auto at = std::find(keys.begin(), keys.end(), key);
  return at == keys.end() ? nullptr : &items[static_cast<size_t>(at - keys.begin())];
}

Result<JsonValue> parse_json(std::string_view text) { return Parser(text).run(); }

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 32) {
      out += "\\u00";
      out += "0123456789abcdef"[byte >> 4];
      out += "0123456789abcdef"[byte & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace sixfold::pte
