#include <cstring>
#include <map>

#include "sixfold/rewrite/rules.h"

namespace sixfold {
namespace {

// Constants above this are weights: equal ones are found by the writer, by content.
constexpr size_t kSmallBytes = 64;

std::string key_of(const Node& node) {
  std::string key = cat(static_cast<int>(node.op), " ", node.target);
  for (const ValueId v : node.inputs) key += cat(" ", v.index);
  return key;
}

bool is_random(const Node& node) {
  return node.op == Op::rand || node.op == Op::randn || node.target.starts_with("aten.rand");
}

void merge_constants(Graph& graph) {
  std::map<std::string, ValueId> known;
  for (uint32_t i = 0; i < graph.value_count(); ++i) {
    const ValueId id{i};
    const Tensor* data = graph.constant(id);
    if (!data || graph.value(id).users.empty() || !data->is_contiguous() || data->size_bytes() > kSmallBytes)
      continue;
    std::string key = cat(data->dtype, data->shape, " ");
    key.append(reinterpret_cast<const char*>(data->data), data->size_bytes());
    const auto [it, fresh] = known.try_emplace(std::move(key), id);
    if (!fresh) graph.replace_uses(id, it->second);
  }
}

}  // namespace

size_t merge_equal(Graph& graph) {
  merge_constants(graph);
  std::multimap<std::string, NodeId> known;
  size_t merged = 0;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (is_random(node)) continue;
    const std::string key = key_of(node);
    const auto [begin, end] = known.equal_range(key);
    NodeId same;
    for (auto it = begin; it != end && !same.valid(); ++it)
      if (graph.node(it->second).attrs == node.attrs) same = it->second;
    if (!same.valid()) {
      known.emplace(key, id);
      continue;
    }
    for (size_t i = 0; i < node.outputs.size(); ++i)
      graph.replace_uses(node.outputs[i], graph.node(same).outputs[i]);
    graph.remove(id);
    ++merged;
  }
  graph.remove_dead();
  return merged;
}

}  // namespace sixfold
