// Output types of matmul and linear.
#include "sixfold/ops/op.h"
#include "sixfold/ops/shapes.h"

namespace sixfold::infer {
namespace {

// False when both are numbers and differ. Relations between symbols were checked by the exporter.
bool may_be_equal(const Dim& a, const Dim& b) { return !a.is_static() || !b.is_static() || a == b; }

}  // namespace

InferResult matmul(const InferCall& call) {
  if (call.in.size() != 2) return invalid_model("matmul of ", call.in.size(), " operands, expected 2");
  const Type &a = call.in[0], &b = call.in[1];
  if (!a.present() || a.dtype != b.dtype)
    return invalid_model("matmul of ", a, " and ", b, ": dtypes differ");
  if (a.rank() < 2 || b.rank() < 2)
    return invalid_model("matmul of ", a, " and ", b, ": ranks must be at least 2");
  if (!may_be_equal(a.dims.back(), b.dims[b.rank() - 2]))
    return invalid_model("matmul of ", a, " and ", b, ": inner extents ", a.dims.back(), " and ",
                         b.dims[b.rank() - 2]);
  SF_ASSIGN(Dims dims, sixfold::broadcast(Dims(a.dims.begin(), a.dims.end() - 2),
                                          Dims(b.dims.begin(), b.dims.end() - 2)));
  dims.push_back(a.dims[a.rank() - 2]);
  dims.push_back(b.dims.back());
  return std::vector<Type>{{a.dtype, std::move(dims)}};
}

InferResult linear(const InferCall& call) {
  if (call.in.size() < 2 || call.in.size() > 3)
    return invalid_model("linear of ", call.in.size(), " operands, expected 2 or 3");
  const Type &x = call.in[0], &w = call.in[1];
  if (!x.present() || x.dtype != w.dtype)
    return invalid_model("linear of ", x, " and ", w, ": dtypes differ");
  if (x.rank() < 1 || w.rank() != 2)
    return invalid_model("linear of ", x, " and ", w, ": expected [.., K] and [N, K]");
  if (!may_be_equal(x.dims.back(), w.dims[1]))
    return invalid_model("linear of ", x, " and ", w, ": inner extents ", x.dims.back(), " and ", w.dims[1]);
  if (call.in.size() == 3 && call.in[2].present()) {
    const Type& b = call.in[2];
    if (b.dtype != x.dtype || b.rank() != 1 || !may_be_equal(b.dims[0], w.dims[0]))
      return invalid_model("linear with bias ", b, ", expected ", Type{x.dtype, {w.dims[0]}});
  }
  Dims dims = x.dims;
  dims.back() = w.dims[0];
  return std::vector<Type>{{x.dtype, std::move(dims)}};
}

}  // namespace sixfold::infer
