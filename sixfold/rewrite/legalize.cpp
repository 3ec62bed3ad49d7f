#include "sixfold/ops/legalize.h"

#include <optional>

#include "sixfold/rewrite/rewriter.h"
#include "sixfold/rewrite/rules.h"

namespace sixfold {
namespace {

// Kernels differ in what they make of tensors without elements; a result without any is known.
std::optional<Patch> nothing(const Graph& graph, const Node& node) {
  Patch patch(graph, node);
  for (const ValueId v : node.outputs) {
    const Type& type = graph.type(v);
    if (!is_static(type.dims) || numel(static_shape(type.dims)) != 0) return std::nullopt;
    std::byte* bytes = nullptr;
    patch.replace(v, patch.constant(Tensor::allocate(type.dtype, static_shape(type.dims), &bytes)));
  }
  return patch;
}

Match legalized(const Graph& graph, const Node& node) {
  if (auto patch = nothing(graph, node)) return std::move(*patch);
  Match folded = fold_constants(graph, node);  // what rules make of constants is not computed again and again
  if (!std::holds_alternative<NoMatch>(folded)) return folded;
  Legal legal(graph, node);
  return legal_rule(node.op)(legal);
}

}  // namespace

Status Rewriter::legalize() {
  // A rule's ops are legalized in the next round; no chain of rules is this long.
  constexpr int kMaxRounds = 16;
  bool changed = true;
  for (int round = 0; changed && unsupported_.empty(); ++round) {
    if (round == kMaxRounds)
      return fail(Code::Internal, "ops are still not legal after ", kMaxRounds, " rounds");
    changed = false;
    for (const NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      if (node.op == Op::call) continue;
      const std::string rule = cat("legalize ", node.op);
      Match match = legalized(graph_, node);
      Status status;
      if (auto* patch = std::get_if<Patch>(&match))
        status = apply_patch(*patch, id, rule);
      else if (auto* error = std::get_if<Error>(&match))
        status = std::move(*error);
      else
        status = fail(Code::Internal, "its rule did not match: ", std::get<NoMatch>(match).reason);
      if (!status.ok() && status.error().code() != Code::Unsupported)
        return status.take_error().during(cat("legalizing ", describe(graph_, node)));
      if (!status.ok()) {
        const Origin& o = graph_.origin(node);
        unsupported_.push_back({o.name, std::string(to_text(node.op)), o.source, status.error().message()});
        continue;
      }
      changed = true;
      graph_.remove(id);
    }
    graph_.remove_dead();
  }
  if (!unsupported_.empty()) {
    const Unsupported& u = unsupported_[0];
    return sixfold::unsupported(
        "node ", u.node, " (", u.target, ")", u.source.empty() ? "" : cat(" at ", u.source),
        " cannot be said with ExecuTorch's kernels: ", u.reason,
        unsupported_.size() > 1 ? cat(" (and ", unsupported_.size() - 1, " more nodes)") : "");
  }
  return verify(graph_);
}

}  // namespace sixfold
