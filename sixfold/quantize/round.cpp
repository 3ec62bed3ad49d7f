#include "sixfold/quantize/round.h"

#include <algorithm>
#include <cmath>

namespace sixfold {
namespace {

// Blocks are symmetric; they have more scales than zero points.
int32_t zero_point(const Encoding& e, size_t i) {
  return e.block == 0 && i < e.zero_points.size() ? e.zero_points[i] : 0;
}

struct Grid {
  float scale, inverse, low, high;  // low and high: in steps from zero
  Grid(const Encoding& e, size_t i)
      : scale(e.scales[i]),
        inverse(1.0f / e.scales[i]),
        low(static_cast<float>(e.quant_min - zero_point(e, i))),
        high(static_cast<float>(e.quant_max - zero_point(e, i))) {}
  float operator()(float x) const {
    float q = x * inverse;
    q = q > low ? q : low;
    q = q < high ? q : high;
    return nearest(q) * scale;
  }
};

}  // namespace

void round_to(const Encoding& encoding, float* x, int64_t n, cpu::Pool& pool) {
  const Grid grid(encoding, 0);
  pool.for_ranges(n, 1 << 15, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) x[i] = grid(x[i]);
  });
}

ScaleIndex::ScaleIndex(const Shape& shape, const Encoding& encoding) {
  if (encoding.axis < 0) return;
  const Shape strides = contiguous_strides(shape);
  const auto axis = static_cast<size_t>(encoding.axis);
  inner_ = std::max<int64_t>(strides[axis], 1);
  channels_ = shape[axis];
  if (!encoding.block) return;
  block_ = encoding.block;
  const size_t along = axis == 1 ? 0 : 1;
  inner1_ = std::max<int64_t>(strides[along], 1);
  extent1_ = shape[along];
  blocks_ = static_cast<size_t>((extent1_ + block_ - 1) / block_);
}

Tensor rounded(const Tensor& data, const Encoding& encoding) {
  const Tensor from = to_contiguous(data);
  std::byte* bytes = nullptr;
  Tensor out = Tensor::allocate(DType::f32, from.shape, &bytes);
  auto* to = reinterpret_cast<float*>(bytes);
  const ScaleIndex index(from.shape, encoding);
  const float* x = from.values<float>().data();
  size_t last = SIZE_MAX;
  Grid grid(encoding, 0);
  for (int64_t i = 0; i < from.count(); ++i) {
    if (const size_t s = index(i); s != last) grid = Grid(encoding, last = s);
    to[i] = grid(x[i]);
  }
  return out;
}

Graph with_rounded_constants(const Graph& graph) {
  Graph out = graph;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op != Op::convolution && node.op != Op::linear) continue;
    const ValueId b = node.input(2);
    if (!b.valid() || graph.value(b).kind != ValueKind::constant || graph.value(b).encoding ||
        graph.value(b).users.size() != 1 || graph.dtype(b) != DType::f32)
      continue;
    const auto& x = graph.value(node.input(0)).encoding;
    const auto& w = graph.value(node.input(1)).encoding;
    if (!x || !w || x->axis >= 0 || w->block) continue;
    const Tensor bias = to_contiguous(graph.value(b).constant);
    if (w->scales.size() != 1 && static_cast<int64_t>(w->scales.size()) != bias.count()) continue;
    std::byte* bytes = nullptr;
    Tensor to = Tensor::allocate(DType::f32, bias.shape, &bytes);
    for (int64_t i = 0; i < bias.count(); ++i) {
      const double step =
          static_cast<double>(x->scales[0]) * w->scales[w->scales.size() == 1 ? 0 : static_cast<size_t>(i)];
      const double q = std::nearbyint(
          std::clamp(bias.values<float>()[static_cast<size_t>(i)] / step, -2147483648.0, 2147483647.0));
      reinterpret_cast<float*>(bytes)[i] = static_cast<float>(q * step);
    }
    out.value(b).constant = std::move(to);
  }
  for (const Value& v : graph.values())
    if (v.kind == ValueKind::constant && v.encoding && v.type.dtype == DType::f32 && !v.users.empty())
      out.value(v.id).constant = rounded(v.constant, *v.encoding);
  return out;
}

}  // namespace sixfold
