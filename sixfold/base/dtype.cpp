#include "sixfold/base/dtype.h"

#include <algorithm>
#include <array>

namespace sixfold {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  size_t bytes;
};
constexpr std::array<Row, 14> kRows = {{{DType::none, "none", 0},
                                        {DType::boolean, "bool", 1},
                                        {DType::u8, "u8", 1},
                                        {DType::i8, "i8", 1},
                                        {DType::i16, "i16", 2},
                                        {DType::i32, "i32", 4},
                                        {DType::i64, "i64", 8},
                                        {DType::u16, "u16", 2},
                                        {DType::u32, "u32", 4},
                                        {DType::u64, "u64", 8},
                                        {DType::f16, "f16", 2},
                                        {DType::bf16, "bf16", 2},
                                        {DType::f32, "f32", 4},
                                        {DType::f64, "f64", 8}}};

}  // namespace

size_t size_of(DType dtype) { return kRows[static_cast<size_t>(dtype)].bytes; }
std::string_view to_text(DType dtype) { return kRows[static_cast<size_t>(dtype)].name; }

Result<DType> parse_dtype(std::string_view text) {
  for (const Row& row : kRows)
    if (row.name == text) return row.dtype;
  return invalid_argument("unknown dtype ", text);
}

DType promote(DType a, DType b) {
  if (a == b || b == DType::none) return a;
  if (a == DType::none) return b;
  if (is_float(a) && is_float(b)) {
    if (a == DType::f64 || b == DType::f64) return DType::f64;
    return DType::f32;  // f32 with a half, or the two halves with each other
  }
  if (is_float(a)) return a;
  if (is_float(b)) return b;
  if (a == DType::boolean) return b;
  if (b == DType::boolean) return a;
  // u8 with a signed type: the signed type, at least 16 bits wide. torch promotes no wider unsigned type with
  // a signed one; the wider of the two stands in.
  const size_t bytes = std::max(size_of(a), size_of(b));
  if (is_signed(a) != is_signed(b)) {
    const DType signed_type = is_signed(a) ? a : b;
    return size_of(signed_type) == 1 ? DType::i16 : signed_type;
  }
  return size_of(a) == bytes ? a : b;
}

}  // namespace sixfold
