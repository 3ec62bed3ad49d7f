// Session: a model ready to run on the CPU engine for inputs of given shapes.
#pragma once

#include "sixfold/engine/engine.h"
#include "sixfold/rewrite/pipeline.h"

namespace sixfold {

// The leaves of the signature that a caller feeds: tensors, and numbers that are constants of the program.
std::vector<size_t> fed_leaves(const Graph& graph);

// Checks what the caller feeds against the signature and finds the value of every symbol. `fed` has one
// tensor for each fed leaf, or one for each tensor leaf. Numbers must equal the program's constants.
struct Feed {
  std::vector<Tensor> tensors;  // for the tensor leaves, in order
  Bindings bindings;
};
Result<Feed> match_inputs(const Graph& graph, std::span<const Tensor> fed);

class Session {
 public:
  // graph: as imported, or canonical. Specialized, canonicalized, optimized and planned here.
  static Result<std::unique_ptr<Session>> create(Graph graph, const Bindings& bindings, cpu::Pool& pool,
                                                 const RewriteOptions& options = {});

  Status run(std::span<const Tensor> inputs);  // the tensor leaves
  // Every leaf of the outputs that is a tensor or a number; row-major, valid until the next run.
  size_t output_count() const { return outputs_.size(); }
  Tensor output(size_t i) const;
  Executor& executor() { return *executor_; }
  const Graph& graph() const { return graph_; }
  const PipelineReport& report() const { return report_; }

 private:
  Graph graph_;
  PipelineReport report_;
  std::unique_ptr<Executor> executor_;
  struct Output {
    size_t index = SIZE_MAX;  // of the executor's outputs
    Tensor literal;           // otherwise
  };
  std::vector<Output> outputs_;
};

}  // namespace sixfold
