#include "sixfold/quantize/masks.h"

#include <algorithm>
#include <cmath>

namespace sixfold {
namespace {

bool is_softmax_operand(const Graph& graph, const Value& v) {
  return !v.users.empty() && std::all_of(v.users.begin(), v.users.end(), [&](NodeId u) {
    const Node& user = graph.node(u);
    if (user.op != Op::softmax) return false;
    const auto rank = static_cast<int64_t>(v.type.rank());
    const int64_t dim = user.attrs.integer("dim");
    return dim == rank - 1 || dim == -1;
  });
}

}  // namespace

std::vector<bool> find_masked(const Graph& graph) {
  // Backwards: what a softmax reads, through ops that add or choose.
  std::vector<bool> out(graph.value_count(), false);
  const std::vector<NodeId> order = graph.order();
  const auto all_users = [&](ValueId v) {
    const Value& value = graph.value(v);
    return !value.users.empty() && std::all_of(value.users.begin(), value.users.end(), [&](NodeId u) {
      const Node& user = graph.node(u);
      switch (user.op) {
        case Op::softmax:
          return true;
        case Op::add:
        case Op::sub:
        case Op::mul:
        case Op::where:
        case Op::minimum:
        case Op::maximum:
        case Op::clamp:
        case Op::reshape:
        case Op::permute:
        case Op::expand:
        case Op::repeat:
        case Op::slice:
        case Op::concat:
        case Op::convert:
        case Op::to:
          return static_cast<bool>(out[user.output().index]);
        default:
          return false;
      }
    });
  };
  for (size_t i = order.size(); i-- > 0;)
    for (const ValueId v : graph.node(order[i]).outputs) out[v.index] = all_users(v);
  for (const Value& v : graph.values())
    if (v.kind != ValueKind::node) out[v.id.index] = all_users(v.id);
  return out;
}

std::vector<bool> find_softmax_operands(const Graph& graph) {
  std::vector<bool> out;
  for (const Value& v : graph.values()) out.push_back(is_softmax_operand(graph, v));
  return out;
}

void finite_masks(Graph& graph) {
  constexpr float kFar = -30000;  // a sum of two is a half yet
  const std::vector<bool> masked = find_masked(graph);
  for (size_t i = 0; i < masked.size(); ++i) {
    Value& v = graph.value(ValueId{static_cast<uint32_t>(i)});
    if (!masked[i] || v.kind != ValueKind::constant || v.constant.dtype != DType::f32 || v.encoding) continue;
    const Tensor flat = to_contiguous(v.constant);
    const auto is_lowest = [](float x) { return std::isinf(x) && x < 0; };
    const auto numbers = flat.values<float>();
    if (std::none_of(numbers.begin(), numbers.end(), is_lowest)) continue;
    std::byte* bytes = nullptr;
    Tensor finite = Tensor::allocate(DType::f32, flat.shape, &bytes);
    std::replace_copy_if(numbers.begin(), numbers.end(), reinterpret_cast<float*>(bytes), is_lowest, kFar);
    v.constant = std::move(finite);
  }
}

}  // namespace sixfold
