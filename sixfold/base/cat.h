// cat(a, b, ...): the text of all parts, joined. For messages; std::format is not in g++ 12.
//
// There are thousands of messages, and hardly any is ever made: so a place that makes one only passes its
// parts on, each with a letter that says what it is, and one function reads them.
#pragma once

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace sixfold {
namespace text {

struct View {  // a string_view that may be passed through "..."
  const char* data;
  size_t size;
};
struct Object {
  const void* object;
  void (*append)(std::string& out, const void* object);
};
void append_items(std::string& out, const std::byte* items, size_t count, size_t item_bytes,
                  void (*append)(std::string&, const void*));

template <typename T>
concept List = requires(const T& x) {
  x.data();
  x.size();
};
template <typename T>
void append(std::string& out, const void* object);

template <typename T>
constexpr char kind_of() {
  if constexpr (std::is_same_v<T, bool>)
    return 'b';
  else if constexpr (std::is_same_v<T, char>)
    return 'c';
  else if constexpr (std::is_integral_v<T>)
    return std::is_signed_v<T> ? 'i' : 'u';
  else if constexpr (std::is_floating_point_v<T>)
    return std::is_same_v<T, float> ? 'f' : 'd';
  else if constexpr (std::is_convertible_v<const T&, const char*>)
    return 's';
  else if constexpr (std::is_convertible_v<const T&, std::string_view>)
    return 'v';
  else
    return 'o';
}
template <typename... Parts>
inline constexpr char kKinds[] = {kind_of<Parts>()..., 0};

// The part as it is passed on; what it refers to lives as long as the whole expression.
template <typename T>
[[gnu::always_inline]] inline auto passed(const T& part) {
  constexpr char kind = kind_of<T>();
  if constexpr (kind == 'b' || kind == 'c')
    return static_cast<int>(part);
  else if constexpr (kind == 'i')
    return static_cast<int64_t>(part);
  else if constexpr (kind == 'u')
    return static_cast<uint64_t>(part);
  else if constexpr (kind == 'f' || kind == 'd')
    return static_cast<double>(part);
  else if constexpr (kind == 's')
    return static_cast<const char*>(part);
  else if constexpr (kind == 'v')
    return View{std::string_view(part).data(), std::string_view(part).size()};
  else
    return Object{&part, append<T>};
}

std::string join(const char* kinds, ...);
std::string join_list(const char* kinds, va_list parts);

// A list, [1, 2], or anything with a free to_text(x), found by argument-dependent lookup. Lists come first: a
// to_text of something that a list converts to may be in sight in one file and not in another.
template <typename T>
void append(std::string& out, const void* object) {
  const T& x = *static_cast<const T*>(object);
  if constexpr (kind_of<T>() != 'o')
    out += join(kKinds<T>, passed(x));
  else if constexpr (List<T>)
    append_items(out, reinterpret_cast<const std::byte*>(x.data()), x.size(), sizeof *x.data(),
                 append<std::remove_cvref_t<decltype(*x.data())>>);
  else
    out += to_text(x);
}

}  // namespace text

template <typename... Parts>
[[gnu::always_inline]] inline std::string cat(const Parts&... parts) {
  return text::join(text::kKinds<Parts...>, text::passed(parts)...);
}

}  // namespace sixfold
