// What the rules of backward ops share.
#pragma once

#include <vector>

#include "sixfold/ops/expr.h"

namespace sixfold::aten {

// The incoming gradient and the other tensor of a formula, in the dtype that torch computes in.
struct Gradient {
  Gradient(Call& call, std::string_view other, std::string_view grad = "grad_output")
      : result(result_type(call, {grad, other})),
        g(call, call.to(call.tensor(grad), compute_type(result))),
        x(call, call.to(call.tensor(other), compute_type(result))) {}

  Status give(const Expr& y) const { return g.call().result(y.to(result)); }

  DType result;
  Expr g, x;
};

// Of several gradients those that output_mask asks for. The file lists no others.
inline bool is_wanted(Call& call, size_t i) {
  const Shape mask = call.ints("output_mask");
  return i < mask.size() && mask[i] != 0;
}
inline Status give_wanted(Call& call, const std::vector<ValueId>& gradients) {
  std::vector<ValueId> wanted;
  for (size_t i = 0; i < gradients.size(); ++i)
    if (is_wanted(call, i)) wanted.push_back(gradients[i]);
  return call.results(wanted.size() == call.output_count() ? wanted : gradients);
}

inline Dim extent_of(const Expr& x, int64_t axis) {
  return axis < x.rank() ? x.dims()[static_cast<size_t>(axis)] : Dim(1);
}
inline Shape axes_between(int64_t begin, int64_t end) {
  Shape out;
  for (int64_t i = begin; i < end; ++i) out.push_back(i);
  return out;
}
inline ValueId zeros(Call& call, const Dims& shape, DType dtype) {
  return call.op(Op::full, {},
                 {{"shape", shape}, {"value", is_float(dtype) ? Attr(0.0) : Attr(Dim(0))}, {"dtype", dtype}});
}

// Parts of backward_rules().
std::span<const AtenRule> backward_activation_rules();
std::span<const AtenRule> backward_norm_rules();
std::span<const AtenRule> backward_loss_rules();
std::span<const AtenRule> backward_resample_rules();  // pooling, resizing, padding
std::span<const AtenRule> backward_product_rules();   // convolutions
std::span<const AtenRule> backward_index_rules();

}  // namespace sixfold::aten
