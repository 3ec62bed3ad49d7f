// Convolutions as those that the NPU has.
#include <cstring>

#include "sixfold/rewrite/htp.h"

namespace sixfold::htp {
namespace {

// The filter with zeros between its taps, so that its dilation is 1.
Tensor stuffed(const Tensor& weight, const Shape& dilation) {
  const Tensor w = to_contiguous(weight);
  Shape shape = w.shape;
  for (size_t i = 0; i < dilation.size(); ++i) shape[i + 2] = (shape[i + 2] - 1) * dilation[i] + 1;
  std::byte* bytes = nullptr;
  Tensor out = Tensor::allocate(w.dtype, shape, &bytes);
  const Shape from = contiguous_strides(w.shape), to = contiguous_strides(shape);
  const size_t size = size_of(w.dtype);
  for (int64_t i = 0; i < w.count(); ++i) {
    int64_t at = 0;
    for (size_t a = 0; a < shape.size(); ++a)
      at += i / from[a] % w.shape[a] * (a < 2 ? 1 : dilation[a - 2]) * to[a];
    std::memcpy(bytes + static_cast<size_t>(at) * size, w.data + static_cast<size_t>(i) * size, size);
  }
  return out;
}

}  // namespace

Match convolution(Htp& h) {
  const Attrs& a = h.attrs();
  const Shape dilation = a.ints("dilation");
  bool dilated = false;
  for (const int64_t d : dilation) dilated = dilated || d != 1;
  if (a.flag("transposed") && dilated) {
    const Tensor* w = h.constant_data(h.in(1));
    if (!w) return h.unsupported("the device has no dilation in a transposed convolution");
    std::vector<ValueId> inputs = h.node().inputs;
    inputs[1] = h.patch.constant(stuffed(*w, dilation));
    Attrs attrs = a;
    attrs.set("dilation", to_dims(Shape(dilation.size(), 1)));
    return h.result(h.add(Op::convolution, std::move(inputs), std::move(attrs)));
  }
  return no_match("the device has it");
}

}  // namespace sixfold::htp
