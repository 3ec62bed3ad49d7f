#include "sixfold/rewrite/htp.h"

#include <algorithm>

#include "sixfold/rewrite/encodings.h"
#include "sixfold/rewrite/recompose.h"
#include "sixfold/rewrite/rules.h"

namespace sixfold {

namespace htp {
Match keep(Htp&) { return no_match("the device has it"); }
}  // namespace htp

namespace {

using HtpRule = Match (*)(Htp&);
HtpRule rule_of(Op op) {
  switch (op) {
#define HTP(id, form, rewrite_fn, lower_fn) \
  case Op::id:                              \
    return htp::rewrite_fn;
#include "sixfold/ops/htp.def"
#undef HTP
    default:
      return htp::keep;
  }
}

// The device runs no such node, and rules count on numbers.
bool is_symbolic(const Graph& graph, const Node& node) {
  const auto symbolic = [&](ValueId v) { return v.valid() && !is_static(graph.dims(v)); };
  return std::any_of(node.inputs.begin(), node.inputs.end(), symbolic) ||
         std::any_of(node.outputs.begin(), node.outputs.end(), symbolic);
}

}  // namespace

Status prepare_for_htp(Graph& graph, const HtpTarget& target, const RewriteOptions& options,
                       PipelineReport* report) {
  SF_TRY(fold_quantization(graph));
  share_grid_of_bounds(graph);
  count_from_zero(graph);
  Rewriter rewriter(graph, options);
  Status status = rewriter.apply(recompose_rules());
  if (status.ok())
    status = rewriter.rewrite_each("htp", [&](const Node& node) -> Match {
      if (is_symbolic(graph, node)) return no_match("its shapes are symbolic");
      Htp h(graph, node, target);
      return rule_of(node.op)(h);
    });
  static constexpr Rule kTidy[] = {{"drop_identity", drop_identity},
                                   {"merge_reshapes", merge_reshapes},
                                   {"merge_permutes", merge_permutes},
                                   {"fold_constants", fold_constants},
                                   {"choose_known", choose_known}};
  if (status.ok()) status = rewriter.apply(kTidy);
  if (status.ok()) status = settle_encodings(graph);
  if (report) report->refused = rewriter.refused();
  if (report) report->log.insert(report->log.end(), rewriter.log().begin(), rewriter.log().end());
  return status;
}

}  // namespace sixfold
