// Products of matrices as kernels. Half operands are multiplied in float.
#include "sixfold/ops/legalize.h"

#include "sixfold/ops/shapes.h"

namespace sixfold::legalize {

Match matmul(Legal& legal) {
  const ValueId a = legal.in(0), b = legal.in(1);
  const DType dtype = legal.dtype(a);
  if (is_half(dtype)) return legal.computed_in(DType::f32);
  if (dtype == DType::boolean) return legal.computed_in(DType::u8);
  const size_t ra = legal.dims(a).size(), rb = legal.dims(b).size();
  if (ra == 2 && rb == 2) return legal.call("aten.mm.default", {{"self", a}, {"mat2", b}});
  if (ra == 3 && rb == 3 && legal.dims(a)[0] == legal.dims(b)[0])
    return legal.call("aten.bmm.default", {{"self", a}, {"mat2", b}});
  // A matrix on the right is shared: the rows of all batches are rows of one matrix.
  const Dims& out = legal.out_type().dims;
  if (rb == 2) {
    const Dim width = legal.dims(a).back();
    const Dim rows = numel(Dims(out.begin(), out.end() - 1));
    const ValueId y = legal.add(Op::matmul, {legal.reshape(a, {rows, width}), b});
    return legal.result(legal.reshape(y, out));
  }
  const Dims batch(out.begin(), out.end() - 2);
  const auto flat = [&](ValueId x) {
    const Dims& dims = legal.dims(x);
    const Dims matrix(dims.end() - 2, dims.end());
    Dims full = batch;
    full.insert(full.end(), matrix.begin(), matrix.end());
    return legal.reshape(legal.expand(x, full), {numel(batch), matrix[0], matrix[1]});
  };
  const ValueId left = flat(a), right = flat(b);
  return legal.result(legal.reshape(legal.add(Op::matmul, {left, right}), out));
}

Match linear(Legal& legal) {
  const ValueId x = legal.in(0);
  const DType dtype = legal.dtype(x);
  if (legal.attrs().text("activation") != "none")
    return fail(Code::Internal, "linear with a fused activation is not legalized");
  if (is_half(dtype)) return legal.computed_in(DType::f32);
  if (legal.rank(x) == 1) {
    const ValueId y = legal.add(
        Op::linear, {legal.reshape(x, {Dim(1), legal.dims(x)[0]}), legal.in(1), legal.in(2)}, legal.attrs());
    return legal.result(legal.reshape(y, legal.out_type().dims));
  }
  return legal.call("aten.linear.default", {{"input", x}, {"weight", legal.in(1)}, {"bias", legal.in(2)}});
}

}  // namespace sixfold::legalize
