// TensorMeta, SymInt and the numbers that stand for enums in a .pt2.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "sixfold/base/type.h"
#include "sixfold/import/json.h"

namespace sixfold {

struct TensorMeta {
  Type type;
  Dims strides;  // in elements
  Dim storage_offset;
};

// The file's numbers for dtypes are not c10's.
Result<DType> dtype_of_json(const Json& number);
Result<std::string> memory_format_of_json(const Json& number);
Result<std::string> layout_of_json(const Json& number);

Result<Dim> read_sym_int(const Json& sym_int);  // {as_int} or {as_expr}
Result<TensorMeta> read_tensor_meta(const Json& meta);

}  // namespace sixfold
