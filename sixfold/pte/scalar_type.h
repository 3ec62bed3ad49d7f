// torch's numbers for element types (c10::ScalarType), as .pte, .ptd, .bpte and ETDump have them.
#pragma once

#include <cstdint>

#include "sixfold/base/dtype.h"

namespace sixfold::pte {

// Unsupported, with torch's name for it, where we have no such type; InvalidModel for an unknown number.
Result<DType> dtype_of(int64_t scalar_type);

// Of any type but none.
int8_t scalar_type_of(DType dtype);

}  // namespace sixfold::pte
