#include "sixfold/pte/scalar_type.h"

namespace sixfold::pte {
namespace {

struct Row {
  int8_t number;
  DType dtype;
  std::string_view name;
};
constexpr Row kRows[] = {
    {0, DType::u8, "uint8"},
    {1, DType::i8, "int8"},
    {2, DType::i16, "int16"},
    {3, DType::i32, "int32"},
    {4, DType::i64, "int64"},
    {5, DType::f16, "float16"},
    {6, DType::f32, "float32"},
    {7, DType::f64, "float64"},
    {8, DType::none, "complex32"},
    {9, DType::none, "complex64"},
    {10, DType::none, "complex128"},
    {11, DType::boolean, "bool"},
    {12, DType::none, "qint8"},
    {13, DType::none, "quint8"},
    {14, DType::none, "qint32"},
    {15, DType::bf16, "bfloat16"},
    {16, DType::none, "quint4x2"},
    {17, DType::none, "quint2x4"},
    {22, DType::none, "bits16"},
    {23, DType::none, "float8_e5m2"},
    {24, DType::none, "float8_e4m3fn"},
    {25, DType::none, "float8_e5m2fnuz"},
    {26, DType::none, "float8_e4m3fnuz"},
    {27, DType::u16, "uint16"},
    {28, DType::u32, "uint32"},
    {29, DType::u64, "uint64"},
};

}  // namespace

Result<DType> dtype_of(int64_t scalar_type) {
  for (const Row& row : kRows) {
    if (row.number != scalar_type) continue;
    if (row.dtype == DType::none) return unsupported("dtype ", row.name, " is not supported");
    return row.dtype;
  }
  return invalid_model("dtype ", scalar_type, " is unknown");
}

int8_t scalar_type_of(DType dtype) {
  for (const Row& row : kRows)
    if (row.dtype == dtype && dtype != DType::none) return row.number;
  assert(false && "no such dtype in a file");
  return -1;
}

}  // namespace sixfold::pte
