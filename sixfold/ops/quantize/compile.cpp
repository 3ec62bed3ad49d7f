// Output types of quantize and dequantize.
#include "sixfold/ops/op.h"

namespace sixfold::infer {

InferResult quantize(const InferCall& call) {
  if (call.in.size() < 2 || call.in.size() > 3 || !call.in[0].present() || !call.in[1].present())
    return invalid_model(call.op, " takes a tensor, a scale and perhaps a zero point, got ", call.in.size(),
                         " operands");
  const Type &x = call.in[0], &scale = call.in[1];
  const DType dtype = call.attrs.dtype("dtype");
  const bool to_integer = call.op == Op::quantize;
  const DType real = to_integer ? x.dtype : dtype, integer = to_integer ? dtype : x.dtype;
  if (!is_float(real) || !is_integer(integer) || !is_float(scale.dtype))
    return invalid_model(call.op, " from ", x.dtype, " to ", dtype, " by a scale of ", scale.dtype);

  const Dims block = call.attrs.dims("block");
  if (block.size() != x.rank()) return invalid_model(call.op, ": blocks of ", block, " in a tensor ", x.dims);
  Dim scales(1);
  for (size_t i = 0; i < x.rank(); ++i) {
    const Dim &extent = x.dims[i], &size = block[i];
    if (extent == size) continue;
    if (size.value_or(1) < 1 ||
        (extent.is_static() && size.is_static() && extent.value() % size.value() != 0))
      return invalid_model(call.op, ": axis ", i, " of ", extent, " in blocks of ", size);
    scales *= floordiv(extent, size);
  }
  const auto fits = [&](const Type& t) {
    const Dim count = numel(t.dims);
    return !count.is_static() || !scales.is_static() || count == scales;
  };
  if (!fits(scale)) return invalid_model(call.op, ": ", scale.dims, " scales for ", scales, " blocks");
  if (call.in.size() == 3 && call.in[2].present() && (!is_integer(call.in[2].dtype) || !fits(call.in[2])))
    return invalid_model(call.op, ": zero points ", call.in[2], " for ", scales, " blocks");
  return std::vector<Type>{{dtype, x.dims}};
}

}  // namespace sixfold::infer
