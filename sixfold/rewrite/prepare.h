// The canonical graph in words that Qualcomm's NPU has; the rules are those of rewrite/htp.h.
#pragma once

#include "sixfold/rewrite/rewriter.h"

namespace sixfold {

struct HtpTarget {
  int arch = 75;              // HTP version
  bool single_heads = false;  // attention head by head (MHA to SHA)
  bool quantizes = false;     // values get grids afterwards: formulas whose parts have wide ranges are worse
};

// "Every node that QNN can say is said with ops that have a lowering; values say on which grid they lie."
Status prepare_for_htp(Graph& graph, const HtpTarget& target, const RewriteOptions& options = {},
                       PipelineReport* report = nullptr);

}  // namespace sixfold
