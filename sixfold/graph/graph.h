// The IR: a functional graph in topological order. Parts are ids, never pointers kept across an edit.
//
// A Value is an input, a constant, a state (a buffer that the model mutates: it holds its last value between
// runs) or a node's output. A Node is either a canonical op (op != Op::call) or a call of an ATen overload as
// the file says it (op == Op::call, its name in target); canonicalization replaces every call.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sixfold/base/attr.h"
#include "sixfold/base/tensor.h"
#include "sixfold/base/type.h"
#include "sixfold/base/value_id.h"
#include "sixfold/ops/op.h"

namespace sixfold {

struct NodeId {
  uint32_t index = UINT32_MAX;
  bool valid() const { return index != UINT32_MAX; }
  friend auto operator<=>(const NodeId&, const NodeId&) = default;
};

// How integers of a value stand for reals: real = scale * (q - zero_point). One scale, one for each index of
// axis, or one for each block of so many indices of axis 1 within an index of axis: scales[axis][block].
struct Encoding {
  DType storage = DType::none;
  int64_t quant_min = 0, quant_max = 0;
  int32_t axis = -1;  // -1: per tensor
  int64_t block = 0;  // 0: no blocks
  std::vector<float> scales;
  std::vector<int32_t> zero_points;
  friend bool operator==(const Encoding&, const Encoding&) = default;
};

// Where a node came from, for messages and reports.
struct Origin {
  std::string name;            // node name in the exported graph, for example "conv2d_1"
  std::string target;          // what the file called, for example "aten.conv2d.default"
  std::string source;          // the user's line: "model.py:12 in forward: return self.conv(x)"
  std::string module_path;     // "features.0.conv"
  std::string rule;            // the rewrite that made it; empty for nodes of the file
  std::vector<Origin> folded;  // of nodes that went into it, as a convolution into its batch norm
};

enum class ValueKind : uint8_t { input, constant, state, node };

struct Value {
  ValueId id;
  std::string name;
  Type type;
  ValueKind kind = ValueKind::node;
  NodeId producer;            // kind node
  uint32_t output_index = 0;  // which output of producer
  Tensor constant;            // kind constant: the data; kind state: its initial data
  std::optional<Encoding> encoding;
  std::vector<NodeId> users;  // a node that uses it twice is listed twice
};

struct Node {
  NodeId id;
  Op op = Op::call;
  std::string target;  // op == Op::call
  std::vector<ValueId> inputs;
  Attrs attrs;
  std::vector<ValueId> outputs;
  uint32_t origin = 0;  // index into Graph::origins
  bool alive = true;

  ValueId input(size_t i) const { return i < inputs.size() ? inputs[i] : kNoValue; }
  ValueId output(size_t i = 0) const { return outputs[i]; }
};

// The model's signature, leaf by leaf in pytree order. A leaf is a tensor (value) or a constant of the
// program.
struct Leaf {
  std::string name;
  ValueId value;  // tensor leaf
  Attr literal;   // number, bool, text or none when value is not valid; a symbolic Dim on outputs is possible
};

struct SymbolRange {
  std::optional<int64_t> min, max;
};

class Graph {
 public:
  // Signature
  std::vector<Leaf> inputs;
  std::vector<Leaf> outputs;
  // After a run, the state takes the value of `next`. Mutated user inputs are listed too: kind input.
  struct Mutation {
    ValueId state;
    ValueId next;
  };
  std::vector<Mutation> mutations;
  std::map<std::string, SymbolRange> symbols;
  std::deque<Origin> origins{1};

  // Values
  ValueId add_input(std::string name, Type type);
  ValueId add_constant(std::string name, Tensor data);
  ValueId add_state(std::string name, Tensor initial);
  const Value& value(ValueId id) const { return values_[id.index]; }
  Value& value(ValueId id) { return values_[id.index]; }
  const Type& type(ValueId id) const;  // the empty Type for kNoValue
  const Dims& dims(ValueId id) const { return type(id).dims; }
  DType dtype(ValueId id) const { return type(id).dtype; }
  size_t value_count() const { return values_.size(); }
  const std::deque<Value>& values() const { return values_; }
  // The data of a constant, or null.
  const Tensor* constant(ValueId id) const;

  // Nodes. New nodes go to the end, or before `before`.
  NodeId add_node(Op op, std::string target, std::vector<ValueId> inputs, Attrs attrs,
                  const std::vector<Type>& output_types, uint32_t origin, NodeId before = {});
  const Node& node(NodeId id) const { return nodes_[id.index].node; }
  Node& node(NodeId id) { return nodes_[id.index].node; }
  size_t node_count() const { return alive_nodes_; }
  const Origin& origin(const Node& node) const { return origins[node.origin]; }
  // Null for inputs, constants and states.
  const Node* producer(ValueId id) const;

  NodeId first() const { return first_; }
  NodeId last() const { return last_; }
  NodeId next(NodeId id) const { return nodes_[id.index].next; }
  NodeId prev(NodeId id) const { return nodes_[id.index].prev; }
  // Ids in topological order, as a copy: safe to edit the graph while walking it.
  std::vector<NodeId> order() const;

  // Edits
  void set_input(NodeId node, size_t i, ValueId value);
  void replace_uses(ValueId old_value, ValueId new_value);  // in nodes, outputs and mutations
  void remove(NodeId node);                                 // its outputs must be unused
  size_t remove_dead();            // nodes whose outputs nobody uses; returns how many
  bool is_used(ValueId id) const;  // by a node, an output or a mutation

 private:
  struct Slot {
    Node node;
    NodeId prev, next;
  };
  std::deque<Value> values_;
  std::deque<Slot> nodes_;
  NodeId first_, last_;
  size_t alive_nodes_ = 0;
};

// A description for messages: "node add_3 (aten.add.Tensor) at model.py:12 in forward: return x + y".
std::string describe(const Graph& graph, const Node& node);

// Every structural rule of the IR: operands exist and precede their users, use lists are right, types are
// sane, constants have the bytes that their shape needs, canonical nodes infer to the types they carry.
Status verify(const Graph& graph);

// With every symbol that bindings has replaced by its number, in types and attributes.
void specialize(Graph& graph, const Bindings& bindings);

// Text that parse() reads back to an equal graph; constants are printed by shape and, when small, by value.
std::string print(const Graph& graph);
Result<Graph> parse(std::string_view text);

}  // namespace sixfold
