#include "sixfold/rewrite/patch_builder.h"

#include "sixfold/execute/evaluate.h"

namespace sixfold {
namespace {

std::optional<Tensor> evaluate_value(const Graph& graph, ValueId x, int& budget) {
  if (const Tensor* t = graph.constant(x)) return to_contiguous(*t);
  const Node* n = graph.producer(x);
  if (!n || n->op == Op::call || n->op == Op::rand || n->op == Op::randn || --budget < 0) return std::nullopt;
  std::vector<Tensor> inputs;
  for (const ValueId v : n->inputs) {
    if (!v.valid()) {
      inputs.emplace_back();
      continue;
    }
    auto t = evaluate_value(graph, v, budget);
    if (!t) return std::nullopt;
    inputs.push_back(*std::move(t));
  }
  for (const ValueId v : n->outputs)
    if (!is_static(graph.dims(v))) return std::nullopt;
  auto outputs = evaluate(n->op, inputs, n->attrs);
  if (!outputs.ok()) return std::nullopt;
  return std::move((*outputs)[graph.value(x).output_index]);
}

}  // namespace

Result<std::vector<ValueId>> PatchBuilder::add(Op op, std::vector<ValueId> inputs, Attrs attrs) {
  return patch_.try_add(op, std::move(inputs), std::move(attrs));
}

std::optional<Tensor> PatchBuilder::known(ValueId id) const {
  if (id.index >= graph_.value_count()) {
    const Tensor* t = patch_.constant_data(id);
    return t ? std::optional(to_contiguous(*t)) : std::nullopt;
  }
  int budget = 100;  // ops: a file may share subexpressions so that walking all paths never ends
  return evaluate_value(graph_, id, budget);
}

std::optional<Builder::Source> PatchBuilder::source(ValueId id) const {
  if (id.index >= graph_.value_count()) return std::nullopt;
  const Node* n = graph_.producer(id);
  if (!n || n->op == Op::call) return std::nullopt;
  return Source{n->op, n->inputs, n->attrs};
}

Result<Patch> PatchBuilder::apply(const AtenRule& rule) {
  Call call(*this, node_.target, node_.inputs, node_.attrs);
  Status returned = rule.apply(call);
  SF_ASSIGN(const std::vector<ValueId> results, call.take(std::move(returned)));
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i].valid()) patch_.replace(node_.outputs[i], results[i]);
  return std::move(patch_);
}

}  // namespace sixfold
