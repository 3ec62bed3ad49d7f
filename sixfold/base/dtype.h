// Element types, their sizes and names, and torch's promotion lattice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sixfold/base/half.h"
#include "sixfold/base/result.h"

namespace sixfold {

enum class DType : uint8_t { none, boolean, u8, i8, i16, i32, i64, u16, u32, u64, f16, bf16, f32, f64 };

size_t size_of(DType dtype);            // bytes; 0 for none
std::string_view to_text(DType dtype);  // "f32"
Result<DType> parse_dtype(std::string_view text);

constexpr bool is_float(DType d) {
  return d == DType::f32 || d == DType::f16 || d == DType::bf16 || d == DType::f64;
}
constexpr bool is_half(DType d) { return d == DType::f16 || d == DType::bf16; }
constexpr bool is_integer(DType d) { return d != DType::none && d != DType::boolean && !is_float(d); }
constexpr bool is_signed(DType d) {
  return is_float(d) || d == DType::i8 || d == DType::i16 || d == DType::i32 || d == DType::i64;
}

// torch.promote_types
DType promote(DType a, DType b);

// Calls f(T{}) with the C++ type of dtype; f must return the same type for each.
template <typename F>
decltype(auto) with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::boolean:
      return f(bool{});
    case DType::u8:
      return f(uint8_t{});
    case DType::i8:
      return f(int8_t{});
    case DType::i16:
      return f(int16_t{});
    case DType::i32:
      return f(int32_t{});
    case DType::i64:
      return f(int64_t{});
    case DType::u16:
      return f(uint16_t{});
    case DType::u32:
      return f(uint32_t{});
    case DType::u64:
      return f(uint64_t{});
    case DType::f16:
      return f(Half{});
    case DType::bf16:
      return f(BFloat16{});
    case DType::f64:
      return f(double{});
    case DType::f32:
    case DType::none:
      break;
  }
  return f(float{});
}

template <typename T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, bool>)
    return DType::boolean;
  else if constexpr (std::is_same_v<T, uint8_t>)
    return DType::u8;
  else if constexpr (std::is_same_v<T, int8_t>)
    return DType::i8;
  else if constexpr (std::is_same_v<T, int16_t>)
    return DType::i16;
  else if constexpr (std::is_same_v<T, int32_t>)
    return DType::i32;
  else if constexpr (std::is_same_v<T, int64_t>)
    return DType::i64;
  else if constexpr (std::is_same_v<T, uint16_t>)
    return DType::u16;
  else if constexpr (std::is_same_v<T, uint32_t>)
    return DType::u32;
  else if constexpr (std::is_same_v<T, uint64_t>)
    return DType::u64;
  else if constexpr (std::is_same_v<T, Half>)
    return DType::f16;
  else if constexpr (std::is_same_v<T, BFloat16>)
    return DType::bf16;
  else if constexpr (std::is_same_v<T, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<T, double>)
    return DType::f64;
  else
    return DType::none;
}

}  // namespace sixfold
