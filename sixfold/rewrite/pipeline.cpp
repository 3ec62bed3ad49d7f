#include "sixfold/rewrite/pipeline.h"

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
        {"merge_permutes", merge_permutes},
        {"merge_padding", merge_padding},
        {"merge_zeros", merge_zeros}}},
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

}  // namespace

Status canonicalize(Graph& graph, const RewriteOptions& options, PipelineReport* report) {
  Rewriter rewriter(graph, options);
  Status status = rewriter.canonicalize();
  if (status.ok()) status = run_stages(rewriter, canonical_stages());
  return rewriter.finish(std::move(status), report);
}

Status optimize_for_cpu(Graph& graph, const RewriteOptions& options, PipelineReport* report) {
  Rewriter rewriter(graph, options);
  Status status = run_stages(rewriter, cpu_stages());
  return rewriter.finish(std::move(status), report);
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
