#include "sixfold/graph/stuffed.h"

#include <cstring>

namespace sixfold {

Tensor stuffed(const Tensor& data, const Shape& every, const Shape& behind) {
  const Tensor in = to_contiguous(data);
  Shape shape = in.shape;
  for (size_t a = 0; a < shape.size(); ++a) shape[a] = (shape[a] - 1) * every[a] + 1 + behind[a];
  std::byte* bytes = nullptr;
  Tensor out = Tensor::allocate(in.dtype, shape, &bytes);
  const Shape from = contiguous_strides(in.shape), to = contiguous_strides(shape);
  const size_t size = size_of(in.dtype);
  for (int64_t i = 0; i < in.count(); ++i) {
    int64_t at = 0;
    for (size_t a = 0; a < shape.size(); ++a) at += i / from[a] % in.shape[a] * every[a] * to[a];
    std::memcpy(bytes + static_cast<size_t>(at) * size, in.data + static_cast<size_t>(i) * size, size);
  }
  return out;
}

}  // namespace sixfold
