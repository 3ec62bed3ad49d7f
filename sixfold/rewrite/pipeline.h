// The pipelines: which rules run, in which order, and what holds afterwards.
#pragma once

#include "sixfold/rewrite/rewriter.h"

namespace sixfold {

// Imported graph -> canonical graph: "every node is a canonical op, constants are folded".
Status canonicalize(Graph& graph, const RewriteOptions& options = {}, PipelineReport* report = nullptr);

// Canonical graph -> what the CPU kernels like best: "activations sit on the products before them".
Status optimize_for_cpu(Graph& graph, const RewriteOptions& options = {}, PipelineReport* report = nullptr);

// Canonical graph -> calls of functional ATen overloads: "ExecuTorch has a kernel for every node, equal nodes
// are one, and no state is returned as it was before it changes".
Status legalize(Graph& graph, const RewriteOptions& options = {}, PipelineReport* report = nullptr);

// Rules that can be switched off, besides the ATen overloads of canonicalization; null for an unknown name.
std::vector<std::string> rule_names();
const Rule* find_rule_by_name(std::string_view name);

}  // namespace sixfold
