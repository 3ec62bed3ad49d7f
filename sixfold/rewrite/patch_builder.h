// What a rule of ops/*/aten*.cpp builds for one call of a graph, as a patch.
#pragma once

#include "sixfold/ops/call.h"
#include "sixfold/rewrite/patch.h"

namespace sixfold {

class PatchBuilder final : public Builder {
 public:
  PatchBuilder(const Graph& graph, const Node& node) : patch_(graph, node), graph_(graph), node_(node) {}

  // Applies the rule to the node: the patch that replaces its outputs.
  Result<Patch> apply(const AtenRule& rule);

  Result<std::vector<ValueId>> add(Op op, std::vector<ValueId> inputs, Attrs attrs) override;
  ValueId constant(Tensor data) override { return patch_.constant(std::move(data)); }
  const Type& type(ValueId id) const override { return patch_.type(id); }
  const Tensor* constant_data(ValueId id) const override { return patch_.constant_data(id); }
  std::optional<Tensor> known(ValueId id) const override;
  std::optional<Source> source(ValueId id) const override;
  size_t output_count() const override { return node_.outputs.size(); }
  const Type& output_type(size_t i) const override { return graph_.type(node_.outputs[i]); }
  bool is_used(size_t i) const override { return graph_.is_used(node_.outputs[i]); }
  int64_t seed() const override { return static_cast<int64_t>(node_.id.index) + 1; }

 private:
  Patch patch_;
  const Graph& graph_;
  const Node& node_;
};

}  // namespace sixfold
