// Text from a file in a message: short, printable, in quotes.
#pragma once

#include <string>
#include <string_view>

namespace sixfold::pte {

inline std::string quoted(std::string_view text) {
  constexpr size_t kMost = 96;
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text.substr(0, kMost)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 32 && byte != 127 && c != '"' && c != '\\') {
      out += c;
    } else {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  out += text.size() > kMost ? "...\"" : "\"";
  return out;
}

}  // namespace sixfold::pte
