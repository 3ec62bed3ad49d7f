// cat(a, b, ...): the text of all parts, joined. For messages; std::format is not in g++ 12.
#pragma once

#include <charconv>
#include <concepts>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sixfold {

inline void append_part(std::string& out, std::string_view part) { out += part; }
inline void append_part(std::string& out, const char* part) { out += part; }
inline void append_part(std::string& out, char part) { out += part; }
inline void append_part(std::string& out, bool part) { out += part ? "true" : "false"; }

template <std::integral T>
void append_part(std::string& out, T part) {
  char buffer[24];
  out.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, part).ptr);
}
template <std::floating_point T>
void append_part(std::string& out, T part) {
  char buffer[40];
  out.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, part).ptr);
}
// Anything with a free to_text(x), found by argument-dependent lookup.
template <typename T>
requires requires(const T& x) { to_text(x); }
void append_part(std::string& out, const T& part) { out += to_text(part); }
template <typename T>
void append_part(std::string& out, std::span<T> parts) {
  out += '[';
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i) out += ", ";
    append_part(out, parts[i]);
  }
  out += ']';
}
template <typename T>
void append_part(std::string& out, const std::vector<T>& parts) {
  append_part(out, std::span<const T>(parts));
}

template <typename... Parts>
std::string cat(const Parts&... parts) {
  std::string out;
  (append_part(out, parts), ...);
  return out;
}

}  // namespace sixfold
