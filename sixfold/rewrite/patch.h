// A Patch is what a rule wants to change: new nodes, and values of the graph to replace by others.
//
// Rules are pure functions (graph, node) -> Match. They build the patch against a const graph; the driver
// applies it, checks that every replacement keeps the value's type, and records the rule's name on the new
// nodes.
#pragma once

#include <deque>
#include <string>
#include <variant>
#include <vector>

#include "sixfold/graph/graph.h"

namespace sixfold {

class Patch {
 public:
  Patch(const Graph& graph, const Node& anchor) : graph_(&graph), anchor_(anchor.id) {}

  const Graph& graph() const { return *graph_; }

  // A new canonical node with one output (or its first output). Types are inferred at once; after a first
  // failure all calls do nothing and status() has the error, so that a rule may build a long chain and look
  // once.
  ValueId add(Op op, std::vector<ValueId> inputs, Attrs attrs = {});
  std::vector<ValueId> add_all(Op op, std::vector<ValueId> inputs, Attrs attrs = {});
  // The same, but a failure is the caller's.
  Result<std::vector<ValueId>> try_add(Op op, std::vector<ValueId> inputs, Attrs attrs);

  // A call of an ATen overload, complete as import makes them, whose results have these types.
  std::vector<ValueId> add_call(std::string target, std::vector<ValueId> inputs, Attrs attrs,
                                const std::vector<Type>& types);

  ValueId constant(Tensor data, std::optional<Encoding> encoding = {});
  ValueId scalar(double value, DType dtype) { return constant(Tensor::scalar(value, dtype)); }
  ValueId scalar(int64_t value, DType dtype) { return constant(Tensor::scalar(value, dtype)); }

  // old_value is an output of the anchor (or of a node that dies with it).
  void replace(ValueId old_value, ValueId new_value);

  // This node goes into the new ones, which answer to its name too.
  void fold(const Node& node) { folded_.push_back(node.origin); }

  void fail(Error error) {
    if (status_.ok()) status_ = std::move(error);
  }
  const Status& status() const { return status_; }

  // Of a value of the graph, or a new one of this patch.
  const Type& type(ValueId id) const;
  const Dims& dims(ValueId id) const { return type(id).dims; }
  DType dtype(ValueId id) const { return type(id).dtype; }
  int64_t rank(ValueId id) const { return static_cast<int64_t>(type(id).rank()); }
  const Tensor* constant_data(ValueId id) const;

 private:
  friend class Rewriter;
  struct NewValue {
    Type type;
    Tensor constant;  // when it is a constant
    bool is_constant = false;
    std::optional<Encoding> encoding;
  };
  struct NewNode {
    Op op;
    std::string target;  // op == Op::call
    std::vector<ValueId> inputs;
    Attrs attrs;
    std::vector<ValueId> outputs;
  };
  ValueId new_value(Type type);

  const Graph* graph_;
  NodeId anchor_;
  std::deque<NewValue> values_;  // ids follow those of the graph; references stay valid
  std::vector<NewNode> nodes_;
  std::vector<std::pair<ValueId, ValueId>> replacements_;
  std::vector<uint32_t> folded_;  // origins
  Status status_;
};

struct NoMatch {
  const char* reason;
};
inline NoMatch no_match(const char* reason) { return {reason}; }

// NoMatch: the rule does not apply. Error: the node is one the rule is for, but it is wrong or not supported.
using Match = std::variant<NoMatch, Patch, Error>;

struct Rule {
  const char* name;
  Match (*apply)(const Graph& graph, const Node& node);
};

}  // namespace sixfold
