// Decompositions that several rules of this family share.
#pragma once

#include "sixfold/ops/expr.h"

namespace sixfold::aten {

inline Expr arg(Call& call, std::string_view name) { return {call, call.tensor(name)}; }

// (sum |x|^p)^(1/p) over dims, with the limits for p 0, inf and -inf. Computed in float for halves, as torch
// does.
Expr vector_norm(const Expr& x, double p, const Shape& dims, bool keepdim);

// Tables of the files beside aten.cpp.
std::span<const AtenRule> distance_rules();  // aten_distance.cpp: norms, distances, similarities
std::span<const AtenRule> order_rules();     // aten_order.cpp: median, kthvalue, mode, quantile
std::span<const AtenRule> loss_rules();      // aten_loss.cpp

}  // namespace sixfold::aten
