#include <map>
#include <set>

#include "sixfold/rewrite/pipeline.h"
#include "sixfold/rewrite/rules.h"

namespace sixfold {
namespace {

// States and inputs that the method overwrites at its end. Where the value before that is an output, or the
// next value of another one, it is copied first.
void keep_old_values(Graph& graph) {
  std::set<ValueId> overwritten;
  for (const Graph::Mutation& m : graph.mutations) overwritten.insert(m.state);
  std::map<ValueId, ValueId> copies;
  const auto copy_of = [&](ValueId v) {
    const auto [it, fresh] = copies.try_emplace(v, kNoValue);
    if (fresh) {
      const NodeId node =
          graph.add_node(Op::call, "aten.clone.default", {v},
                         {{"self", Operands{0, 1, false}}, {"memory_format", Attr()}}, {graph.type(v)}, 0);
      it->second = graph.node(node).output();
    }
    return it->second;
  };
  for (Leaf& leaf : graph.outputs)
    if (overwritten.contains(leaf.value)) leaf.value = copy_of(leaf.value);
  std::erase_if(graph.mutations, [](const Graph::Mutation& m) { return m.state == m.next; });
  for (Graph::Mutation& m : graph.mutations)
    if (overwritten.contains(m.next)) m.next = copy_of(m.next);
}

}  // namespace

Status legalize(Graph& graph, const RewriteOptions& options, PipelineReport* report) {
  Rewriter rewriter(graph, options);
  Status status = rewriter.legalize();
  if (status.ok()) {
    merge_equal(graph);
    keep_old_values(graph);
    status = verify(graph);
  }
  return rewriter.finish(std::move(status), report);
}

}  // namespace sixfold
