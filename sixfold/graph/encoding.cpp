#include "sixfold/graph/encoding.h"

namespace sixfold {

Tensor reals_of(const Tensor& integers, const Encoding& e) {
  const Tensor q = to_contiguous(integers);
  std::byte* bytes = nullptr;
  Tensor out = Tensor::allocate(DType::f32, q.shape, &bytes);
  auto* reals = reinterpret_cast<float*>(bytes);
  const Shape strides = contiguous_strides(q.shape);
  const auto index = [&](int64_t i, int32_t axis) {
    const auto a = static_cast<size_t>(axis);
    return i / strides[a] % q.shape[a];
  };
  const int64_t blocks = e.block > 0 ? q.shape[e.axis == 0 ? 1 : 0] / e.block : 1;
  for (int64_t i = 0; i < q.count(); ++i) {
    const int64_t channel = e.axis < 0 ? 0 : index(i, e.axis);
    const int64_t at = e.block > 0 ? channel * blocks + index(i, e.axis == 0 ? 1 : 0) / e.block : channel;
    const auto c = static_cast<size_t>(channel);
    const int32_t zero = c < e.zero_points.size() ? e.zero_points[c] : 0;
    reals[i] = static_cast<float>(element_real(q, i) - zero) * e.scales[static_cast<size_t>(at)];
  }
  return out;
}

const Node* stored_integers(const Graph& graph, ValueId value) {
  const Node* producer = value.valid() ? graph.producer(value) : nullptr;
  if (!producer || producer->op != Op::dequantize || !graph.constant(producer->input(0))) return nullptr;
  return graph.value(value).encoding ? producer : nullptr;
}

}  // namespace sixfold
