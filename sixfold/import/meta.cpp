#include "sixfold/import/meta.h"

#include "sixfold/import/symbolic.h"

namespace sixfold {
namespace {

constexpr size_t kMaxRank = 64;
constexpr int64_t kMaxExtent = int64_t{1} << 40;
constexpr int64_t kMaxBytes = int64_t{1} << 46;

struct DTypeNumbers {
  int64_t json;
  DType dtype;
  std::string_view name;
};
constexpr DTypeNumbers kDTypes[] = {
    {1, DType::u8, "uint8"},
    {2, DType::i8, "int8"},
    {3, DType::i16, "int16"},
    {4, DType::i32, "int32"},
    {5, DType::i64, "int64"},
    {6, DType::f16, "float16"},
    {7, DType::f32, "float32"},
    {8, DType::f64, "float64"},
    {9, DType::none, "complex32"},
    {10, DType::none, "complex64"},
    {11, DType::none, "complex128"},
    {12, DType::boolean, "bool"},
    {13, DType::bf16, "bfloat16"},
    {28, DType::u16, "uint16"},
    {29, DType::none, "float8_e4m3fn"},
    {30, DType::none, "float8_e5m2"},
    {31, DType::none, "float8_e4m3fnuz"},
    {32, DType::none, "float8_e5m2fnuz"},
    {33, DType::none, "float8_e8m0fnu"},
    {34, DType::u32, "uint32"},
    {35, DType::u64, "uint64"},
};

Result<Dims> read_sym_ints(const Json& list) {
  SF_ASSIGN(const auto items, list.items());
  if (items.size() > kMaxRank) return list.bad("rank ", items.size(), " is above the limit of ", kMaxRank);
  Dims out;
  for (const Json& item : items) {
    SF_ASSIGN(Dim dim, read_sym_int(item));
    out.push_back(std::move(dim));
  }
  return out;
}

}  // namespace

Result<DType> dtype_of_json(const Json& number) {
  SF_ASSIGN(const int64_t n, number.integer());
  for (const DTypeNumbers& row : kDTypes) {
    if (row.json != n) continue;
    if (row.dtype == DType::none)
      return unsupported("dtype ", row.name, " is not supported (at ", number.path(), ")");
    return row.dtype;
  }
  return number.bad("dtype ", n, " is unknown");
}

Result<std::string> memory_format_of_json(const Json& number) {
  SF_ASSIGN(const int64_t n, number.integer());
  constexpr const char* kNames[] = {"contiguous", "channels_last", "channels_last_3d", "preserve"};
  if (n < 1 || n > 4) return number.bad("memory format ", n, " is unknown");
  return std::string(kNames[n - 1]);
}

Result<std::string> layout_of_json(const Json& number) {
  SF_ASSIGN(const int64_t n, number.integer());
  if (n != 7) return unsupported("layout ", n, " is not strided (at ", number.path(), ")");
  return std::string("strided");
}

Result<Dim> read_sym_int(const Json& sym_int) {
  SF_ASSIGN(const auto tagged, sym_int.tagged());
  const auto& [tag, value] = tagged;
  if (tag == "as_int") {
    SF_ASSIGN(const int64_t n, value.integer());
    return Dim(n);
  }
  if (tag != "as_expr") return sym_int.bad("expected as_int or as_expr, found ", tag);
  SF_ASSIGN(const Json expr, value.get("expr_str"));
  SF_ASSIGN(const std::string_view text, expr.text());
  auto dim = parse_srepr(text);
  if (!dim.ok()) return dim.take_error().during(cat("reading ", expr.path()));
  return dim;
}

Result<TensorMeta> read_tensor_meta(const Json& meta) {
  TensorMeta out;
  SF_ASSIGN(const Json dtype, meta.get("dtype"));
  SF_ASSIGN(out.type.dtype, dtype_of_json(dtype));
  SF_ASSIGN(const Json sizes, meta.get("sizes"));
  SF_ASSIGN(out.type.dims, read_sym_ints(sizes));
  SF_ASSIGN(const Json strides, meta.get("strides"));
  SF_ASSIGN(out.strides, read_sym_ints(strides));
  SF_ASSIGN(const Json offset, meta.get("storage_offset"));
  SF_ASSIGN(out.storage_offset, read_sym_int(offset));
  SF_ASSIGN(const Json layout, meta.get("layout"));
  SF_TRY(layout_of_json(layout));
  if (out.strides.size() != out.type.rank())
    return meta.bad(out.type.rank(), " sizes but ", out.strides.size(), " strides");
  for (const Dim& d : out.type.dims)
    if (d.is_static() && (d.value() < 0 || d.value() > kMaxExtent))
      return meta.bad("extent ", d, " is outside 0 to ", kMaxExtent);
  if (is_static(out.type.dims) &&
      numel(static_shape(out.type.dims)) > kMaxBytes / static_cast<int64_t>(size_of(out.type.dtype)))
    return meta.bad("a tensor ", out.type, " of more than ", kMaxBytes, " bytes");
  return out;
}

}  // namespace sixfold
