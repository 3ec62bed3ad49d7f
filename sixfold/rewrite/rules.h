// Every rule by name. A rule is a pure function; pipeline.cpp says which run where and in which order.
#pragma once

#include "sixfold/rewrite/patch.h"

namespace sixfold {

// fold.cpp
Match fold_constants(const Graph& graph, const Node& node);
// simplify.cpp
Match drop_identity(const Graph& graph, const Node& node);
Match merge_reshapes(const Graph& graph, const Node& node);
Match merge_permutes(const Graph& graph, const Node& node);
Match merge_padding(const Graph& graph, const Node& node);
Match merge_zeros(const Graph& graph, const Node& node);

// fuse.cpp
Match fold_batch_norm(const Graph& graph, const Node& node);
Match fuse_batch_norm(const Graph& graph, const Node& node);
Match fuse_bias(const Graph& graph, const Node& node);
Match fuse_residual(const Graph& graph, const Node& node);
Match form_silu(const Graph& graph, const Node& node);
Match fuse_activation(const Graph& graph, const Node& node);

// merge.cpp: of nodes that compute the same from the same operands, and of small constants with equal bytes,
// the first stays. Returns how many nodes went.
size_t merge_equal(Graph& graph);

}  // namespace sixfold
