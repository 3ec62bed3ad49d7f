// The canonical graph in words that Qualcomm's NPU has: decompositions, recompositions, ranks and types.
//
// A rule (ops/<family>/htp.cpp, a column of ops/htp.def) gives a node as canonical ops that are closer to the
// device, or NoMatch when it is lowered as it stands. New nodes are looked at in turn.
#pragma once

#include "sixfold/ops/legalize.h"
#include "sixfold/rewrite/rewriter.h"

namespace sixfold {

struct HtpTarget {
  int arch = 75;              // HTP version
  bool single_heads = false;  // attention head by head (MHA to SHA)
};

class Htp : public Legal {
 public:
  Htp(const Graph& graph, const Node& node, const HtpTarget& target)
      : Legal(graph, node), target(target), graph(graph) {}
  const HtpTarget& target;
  const Graph& graph;
};

namespace htp {
#define HTP(id, form, rewrite_fn, lower_fn) Match rewrite_fn(Htp& h);
#include "sixfold/ops/htp.def"
#undef HTP
}  // namespace htp

// "Every node that QNN can say is said with ops that have a lowering."
Status prepare_for_htp(Graph& graph, const HtpTarget& target, const RewriteOptions& options = {},
                       PipelineReport* report = nullptr);

}  // namespace sixfold
