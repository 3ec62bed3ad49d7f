// A number attribute as the bytes of one element.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>

#include "sixfold/base/attr.h"

namespace sixfold::cpu {

// static_cast<T>(x), where halves convert through float.
template <typename T, typename X>
T convert_number(X x) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
    return T(static_cast<float>(x));
  else
    return static_cast<T>(x);
}

template <typename T>
T number_attr(const Attr* attr) {
  if (attr) {
    if (const double* x = std::get_if<double>(attr)) return convert_number<T>(*x);
    if (const Dim* d = std::get_if<Dim>(attr)) return convert_number<T>(d->value_or(0));
    if (const bool* b = std::get_if<bool>(attr)) return convert_number<T>(*b);
  }
  return T{};
}

// An absent attribute gives zero.
inline std::array<std::byte, 8> number_bytes(const Attr* attr, DType dtype) {
  std::array<std::byte, 8> bytes{};
  with_type(dtype, [&](auto tag) {
    const auto value = number_attr<decltype(tag)>(attr);
    std::memcpy(bytes.data(), &value, sizeof value);
  });
  return bytes;
}

}  // namespace sixfold::cpu
