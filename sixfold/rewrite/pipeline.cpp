#include "sixfold/rewrite/pipeline.h"

#include <map>
#include <set>

#include "sixfold/rewrite/recompose.h"
#include "sixfold/rewrite/rules.h"

namespace sixfold {
namespace {

struct Stage {
  const char* name;
  std::vector<Rule> rules;
};

const std::vector<Stage>& canonical_stages() {
  static const std::vector<Stage> stages = {
      {"simplify",
       {{"drop_identity", drop_identity},
        {"merge_reshapes", merge_reshapes},
        {"merge_permutes", merge_permutes}}},
      {"fold", {{"fold_constants", fold_constants}}},
      {"norms", {{"fold_batch_norm", fold_batch_norm}}},
  };
  return stages;
}

const std::vector<Stage>& cpu_stages() {
  static const std::vector<Stage> stages = {
      {"norms", {{"fuse_batch_norm", fuse_batch_norm}}},
      // What is added comes before what is applied to the sum.
      {"sums", {{"fuse_bias", fuse_bias}, {"fuse_residual", fuse_residual}}},
      {"activations", {{"form_silu", form_silu}, {"fuse_activation", fuse_activation}}},
  };
  return stages;
}

Status run_stages(Rewriter& rewriter, const std::vector<Stage>& stages) {
  for (const Stage& stage : stages)
    if (Status s = rewriter.apply(stage.rules); !s.ok())
      return s.take_error().during(cat("running stage ", stage.name));
  return {};
}

Status finish(const Rewriter& rewriter, Status status, PipelineReport* report) {
  if (report) {
    report->log.insert(report->log.end(), rewriter.log().begin(), rewriter.log().end());
    report->unsupported = rewriter.unsupported();
  }
  return status;
}

}  // namespace

Status canonicalize(Graph& graph, const RewriteOptions& options, PipelineReport* report) {
  Rewriter rewriter(graph, options);
  Status status = rewriter.canonicalize();
  if (status.ok()) status = run_stages(rewriter, canonical_stages());
  return finish(rewriter, std::move(status), report);
}

Status optimize_for_cpu(Graph& graph, const RewriteOptions& options, PipelineReport* report) {
  Rewriter rewriter(graph, options);
  Status status = run_stages(rewriter, cpu_stages());
  return finish(rewriter, std::move(status), report);
}

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
  return finish(rewriter, std::move(status), report);
}

std::vector<std::string> rule_names() {
  std::vector<std::string> names;
  for (const auto* stages : {&canonical_stages(), &cpu_stages()})
    for (const Stage& stage : *stages)
      for (const Rule& rule : stage.rules) names.emplace_back(rule.name);
  for (const Rule& rule : recompose_rules()) names.emplace_back(rule.name);
  return names;
}

const Rule* find_rule_by_name(std::string_view name) {
  for (const auto* stages : {&canonical_stages(), &cpu_stages()})
    for (const Stage& stage : *stages)
      for (const Rule& rule : stage.rules)
        if (rule.name == name) return &rule;
  for (const Rule& rule : recompose_rules())
    if (rule.name == name) return &rule;
  return nullptr;
}

}  // namespace sixfold
