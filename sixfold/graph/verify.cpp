#include <algorithm>
#include <map>

#include "sixfold/graph/graph.h"

namespace sixfold {
namespace {

constexpr size_t kMaxRank = 16;
constexpr int64_t kMaxExtent = int64_t{1} << 40;
constexpr int64_t kMaxBytes = int64_t{1} << 46;

Status verify_type(const Type& type) {
  if (!type.present()) return invalid_model("it has no dtype");
  if (type.rank() > kMaxRank) return invalid_model("rank ", type.rank(), " is above the limit of ", kMaxRank);
  for (const Dim& d : type.dims)
    if (d.is_static() && (d.value() < 0 || d.value() > kMaxExtent))
      return invalid_model("extent ", d, " is outside 0 to ", kMaxExtent);
  const Dim count = numel(type.dims);
  if (count.is_static() && count.value() > kMaxBytes / static_cast<int64_t>(size_of(type.dtype)))
    return invalid_model(type, " needs more than ", kMaxBytes, " bytes");
  return {};
}

Status verify_value(const Value& v) {
  SF_TRY(verify_type(v.type));
  if (v.kind == ValueKind::constant || v.kind == ValueKind::state) {
    if (to_dims(v.constant.shape) != v.type.dims || v.constant.dtype != v.type.dtype)
      return Error(Code::Internal, cat("its data has another shape or dtype than its type ", v.type));
  }
  return {};
}

Status verify_node(const Graph& graph, const Node& node, const std::vector<bool>& defined) {
  for (const ValueId in : node.inputs) {
    if (!in.valid()) continue;
    if (in.index >= graph.value_count() || !defined[in.index])
      return Error(Code::Internal, "an operand is not defined before it");
    const auto& users = graph.value(in).users;
    if (std::find(users.begin(), users.end(), node.id) == users.end())
      return Error(Code::Internal, "an operand's use list lacks it");
  }
  if (node.op == Op::call) return {};
  std::vector<Type> in;
  in.reserve(node.inputs.size());
  for (const ValueId v : node.inputs) in.push_back(graph.type(v));
  SF_ASSIGN(const std::vector<Type> out, infer_types(node.op, in, node.attrs));
  if (out.size() != node.outputs.size())
    return Error(Code::Internal, cat("it has ", node.outputs.size(), " outputs, its op gives ", out.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    const Type& has = graph.type(node.outputs[i]);
    if (has.dtype != out[i].dtype || !equivalent(has.dims, out[i].dims))
      return invalid_model("output ", i, " is ", has, " where the op gives ", out[i]);
  }
  return {};
}

}  // namespace

Status verify(const Graph& graph) {
  std::vector<bool> defined(graph.value_count(), false);
  for (const Value& v : graph.values()) {
    defined[v.id.index] = v.kind != ValueKind::node;
    if (Status s = verify_value(v); !s.ok()) {
      if (v.kind == ValueKind::node && !graph.node(v.producer).alive) continue;
      return s.take_error().during(cat("checking value ", v.name.empty() ? cat("%", v.id.index) : v.name));
    }
  }
  for (NodeId id = graph.first(); id.valid(); id = graph.next(id)) {
    const Node& node = graph.node(id);
    if (Status s = verify_node(graph, node, defined); !s.ok())
      return s.take_error().during(cat("checking ", describe(graph, node)));
    for (const ValueId out : node.outputs) defined[out.index] = true;
  }
  const auto is_defined = [&](ValueId v) { return v.index < defined.size() && defined[v.index]; };
  for (const Leaf& leaf : graph.outputs)
    if (leaf.value.valid() && !is_defined(leaf.value))
      return Error(Code::Internal, cat("output ", leaf.name, " is not defined"));
  for (const Graph::Mutation& m : graph.mutations)
    if (!is_defined(m.state) || !is_defined(m.next))
      return Error(Code::Internal, "a mutation names a value that is not defined");
  return {};
}

}  // namespace sixfold
