#include "sixfold/base/cat.h"

#include <charconv>
#include <cstdarg>

namespace sixfold {
namespace {

template <typename T>
void append_number(std::string& out, T number) {
  char buffer[40];
  out.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, number).ptr);
}

}  // namespace

void text::append_items(std::string& out, const std::byte* items, size_t count, size_t item_bytes,
                        void (*append)(std::string&, const void*)) {
  out += '[';
  for (size_t i = 0; i < count; ++i) {
    if (i) out += ", ";
    append(out, items + i * item_bytes);
  }
  out += ']';
}

std::string text::join_list(const char* kinds, va_list parts) {
  std::string out;
  for (; *kinds; ++kinds) {
    switch (*kinds) {
      case 'b':
        out += va_arg(parts, int) ? "true" : "false";
        break;
      case 'c':
        out += static_cast<char>(va_arg(parts, int));
        break;
      case 'i':
        append_number(out, va_arg(parts, int64_t));
        break;
      case 'u':
        append_number(out, va_arg(parts, uint64_t));
        break;
      case 'f':
        append_number(out, static_cast<float>(va_arg(parts, double)));
        break;
      case 'd':
        append_number(out, va_arg(parts, double));
        break;
      case 's':
        out += va_arg(parts, const char*);
        break;
      case 'v': {
        const auto view = va_arg(parts, View);
        out.append(view.data, view.size);
        break;
      }
      default: {
        const auto object = va_arg(parts, Object);
        object.append(out, object.object);
      }
    }
  }
  return out;
}

std::string text::join(const char* kinds, ...) {
  va_list parts;
  va_start(parts, kinds);
  std::string out = join_list(kinds, parts);
  va_end(parts);
  return out;
}

}  // namespace sixfold
