// The canonical graph in words that Qualcomm's NPU has: decompositions, recompositions, ranks and types.
//
// A rule (ops/<family>/htp.cpp, a column of ops/htp.def) gives a node as canonical ops that are closer to the
// device, or NoMatch when it is lowered as it stands. New nodes are looked at in turn.
#pragma once

#include "sixfold/ops/legalize.h"
#include "sixfold/rewrite/prepare.h"

namespace sixfold {

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

}  // namespace sixfold
