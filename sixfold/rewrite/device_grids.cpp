// Grids of quantized models as the device wants them: of unsigned bytes, and one for a sum and its bounds.
#include <algorithm>

#include "sixfold/graph/encoding.h"
#include "sixfold/rewrite/encodings.h"

namespace sixfold {
namespace {

constexpr int kShift = 128;

bool is_signed_bytes(const std::optional<Encoding>& e) {
  return e && e->axis < 0 && e->block == 0 && e->quant_min < 0 && e->quant_min >= -128 &&
         e->quant_max <= 127 && e->quant_max - e->quant_min > 15;
}

Encoding shifted(Encoding e) {
  e.storage = DType::u8;
  e.quant_min += kShift;
  e.quant_max += kShift;
  for (int32_t& z : e.zero_points) z += kShift;
  if (e.zero_points.empty()) e.zero_points.push_back(kShift);
  return e;
}

// Weights stay signed, which is what the device has them in.
bool is_weight_of(const Node& user, ValueId v) {
  if (user.op != Op::convolution && user.op != Op::linear && user.op != Op::matmul) return false;
  return user.inputs.size() > 1 && user.input(1) == v && user.input(0) != v;
}

}  // namespace

void count_from_zero(Graph& graph) {
  // Integers that the model takes and gives are signed, and what reads them should be as they are.
  for (const Value& v : graph.values())
    if (!is_float(v.type.dtype) && is_signed_bytes(v.encoding)) return;
  const size_t count = graph.value_count();
  for (size_t i = 0; i < count; ++i) {
    const ValueId id{static_cast<uint32_t>(i)};
    if (!is_signed_bytes(graph.value(id).encoding)) continue;
    const Encoding e = *graph.value(id).encoding;
    const Node* producer = graph.producer(id);
    const Tensor* integers =
        producer && producer->op == Op::dequantize ? graph.constant(producer->input(0)) : nullptr;
    const auto& users = graph.value(id).users;
    const bool weight =
        std::any_of(users.begin(), users.end(), [&](NodeId u) { return is_weight_of(graph.node(u), id); });
    if ((integers || graph.constant(id)) && weight) continue;
    if (!integers) {
      graph.value(id).encoding = shifted(e);
      continue;
    }
    const ValueId constant = graph.add_constant(graph.value(id).name, reals_of(*integers, e));
    graph.value(constant).encoding = shifted(e);
    graph.replace_uses(id, constant);
  }
  graph.remove_dead();
}

void share_grid_of_bounds(Graph& graph) {
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op != Op::relu && node.op != Op::clamp) continue;
    const std::optional<Encoding> grid = graph.value(node.output()).encoding;
    Value& x = graph.value(node.input(0));
    if (!grid || grid->axis >= 0 || x.encoding || x.kind != ValueKind::node || x.users.size() != 1) continue;
    const Node& producer = graph.node(x.producer);
    switch (producer.op) {
      case Op::convolution:
      case Op::linear:
      case Op::matmul:
      case Op::add:
      case Op::sub:
      case Op::mul:
      case Op::batch_norm:
        break;
      default:
        continue;
    }
    // What is computed from floats stays a float.
    const bool on_grids = std::all_of(producer.inputs.begin(), producer.inputs.end(), [&](ValueId v) {
      return !v.valid() || graph.constant(v) || graph.value(v).encoding;
    });
    const bool is_result = std::any_of(graph.outputs.begin(), graph.outputs.end(),
                                       [&](const Leaf& leaf) { return leaf.value == node.input(0); });
    if (on_grids && !is_result) x.encoding = grid;
  }
}

}  // namespace sixfold
