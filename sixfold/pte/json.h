// JSON as small documents inside a file have it: a reader that refuses rather than guesses, and text for a
// writer.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sixfold/base/result.h"

namespace sixfold::pte {

struct JsonValue {
  enum class Kind : uint8_t { null, boolean, number, text, list, object };
  Kind kind = Kind::null;
  std::string text;               // of a text; of a number and a boolean, as written
  std::vector<JsonValue> items;   // of a list; the values of an object
  std::vector<std::string> keys;  // of an object

  const JsonValue* find(std::string_view key) const;  // null when there is none, or this is no object
};

// At most 16 levels deep. Memory taken is at most a small multiple of the text.
Result<JsonValue> parse_json(std::string_view text);

// The text in quotes, with what JSON asks to be escaped.
std::string json_text(std::string_view text);

}  // namespace sixfold::pte
