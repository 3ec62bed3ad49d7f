// Types, encodings and extents in QNN's words.
#pragma once

#include <vector>

#include "sixfold/graph/encoding.h"
#include "sixfold/graph/graph.h"
#include "sixfold/qnn/types.h"

namespace sixfold {

qnn::DataType device_type(DType dtype);  // of numbers that are not quantized
qnn::DataType fixed_type(const Encoding& encoding);
inline size_t fixed_bytes(const Encoding& encoding) { return qnn::size_of(fixed_type(encoding)); }

// For a tensor whose axes are in this order (empty: as they are).
qnn::Quantization quantization_of(const Encoding& encoding, const Shape& order = {});

std::vector<uint32_t> to_extents(const Dims& dims);  // [1] for a scalar

}  // namespace sixfold
