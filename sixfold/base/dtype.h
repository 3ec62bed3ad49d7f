// Element types, their sizes and names, and torch's promotion lattice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sixfold/base/half.h"
#include "sixfold/base/result.h"
#include "sixfold/base/selection.h"

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

// Whether kernels of this build know the type; a selective build has those that its programs use.
constexpr bool keeps(DType dtype) {
  switch (dtype) {
#define SF_DTYPE(id) \
  case DType::id:    \
    return keeps(Part::dtype, #id);
    SF_DTYPE(boolean)
    SF_DTYPE(u8)
    SF_DTYPE(i8)
    SF_DTYPE(i16)
    SF_DTYPE(i32)
    SF_DTYPE(i64)
    SF_DTYPE(u16)
    SF_DTYPE(u32)
    SF_DTYPE(u64)
    SF_DTYPE(f16)
    SF_DTYPE(bf16)
    SF_DTYPE(f32)
    SF_DTYPE(f64)
#undef SF_DTYPE
    case DType::none:
      break;
  }
  return true;
}

// Calls f(T{}) with the C++ type of dtype; f must return the same type for each. Kernels see the types that
// this build keeps, which cpu::make has checked; numbers (every) are read from all.
template <bool every = false, typename F>
decltype(auto) with_type(DType dtype, F&& f) {
#define SF_CASE(id, T)                                      \
  case DType::id:                                           \
    if constexpr (every || keeps(DType::id)) return f(T{}); \
    break;
  switch (dtype) {
    SF_CASE(boolean, bool)
    SF_CASE(u8, uint8_t)
    SF_CASE(i8, int8_t)
    SF_CASE(i16, int16_t)
    SF_CASE(i32, int32_t)
    SF_CASE(i64, int64_t)
    SF_CASE(u16, uint16_t)
    SF_CASE(u32, uint32_t)
    SF_CASE(u64, uint64_t)
    SF_CASE(f16, Half)
    SF_CASE(bf16, BFloat16)
    SF_CASE(f64, double)
    case DType::f32:
    case DType::none:
      return f(float{});
  }
#undef SF_CASE
  std::abort();
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
