// Formulas in primitive ops, put together again as the op that they spell, for the NPU: it computes in 16-bit
// floats, in which a sum of squares overflows at 256, and its own norms and activations do not.
//
// Each rule is switched off by its name; what it makes is taken apart again, in the way that suits the
// device, where that has no such op.
#pragma once

#include <span>

#include "sixfold/rewrite/patch.h"

namespace sixfold {

std::span<const Rule> recompose_rules();

// recompose_norm.cpp
Match mean_of_sum(const Graph& graph, const Node& node);
Match form_norm(const Graph& graph, const Node& node);
Match fold_norm_gain(const Graph& graph, const Node& node);
Match fold_norm_bias(const Graph& graph, const Node& node);
// recompose_softmax.cpp
Match ask_the_mask(const Graph& graph, const Node& node);
Match form_softmax(const Graph& graph, const Node& node);
Match form_log_softmax(const Graph& graph, const Node& node);
// recompose_affine.cpp
Match form_batch_norm(const Graph& graph, const Node& node);
Match fold_line_before(const Graph& graph, const Node& node);
// recompose_activation.cpp: one rule for each function, "form_gelu"
std::span<const Rule> activation_rules();
// half_range.cpp
Match finite_halves(const Graph& graph, const Node& node);

}  // namespace sixfold
