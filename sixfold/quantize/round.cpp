#include "sixfold/quantize/round.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "sixfold/base/recycled.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sixfold/quantize/round.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#ifndef SIXFOLD_QUANTIZE_ROUND_GRID
#define SIXFOLD_QUANTIZE_ROUND_GRID
namespace sixfold {
struct RoundingGrid {
  float scale, inverse, low, high;  // low and high: in steps from zero
};
}  // namespace sixfold
#endif

HWY_BEFORE_NAMESPACE();
namespace sixfold::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// To the nearest integer, ties to even.
void round_all(const RoundingGrid& g, const float* from, float* to, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto inverse = hn::Set(d, g.inverse), scale = hn::Set(d, g.scale), low = hn::Set(d, g.low),
             high = hn::Set(d, g.high);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    auto q = hn::Mul(hn::LoadU(d, from + i), inverse);
    q = hn::IfThenElse(hn::Gt(q, low), q, low);
    q = hn::IfThenElse(hn::Lt(q, high), q, high);
    hn::StoreU(hn::Mul(hn::Round(q), scale), d, to + i);
  }
  for (; i < n; ++i) {
    float q = from[i] * g.inverse;
    q = q > g.low ? q : g.low;
    q = q < g.high ? q : g.high;
    to[i] = nearest(q) * g.scale;
  }
}

}  // namespace sixfold::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sixfold {

HWY_EXPORT(round_all);

namespace {

// Blocks are symmetric; they have more scales than zero points.
int32_t zero_point(const Encoding& e, size_t i) {
  return e.block == 0 && i < e.zero_points.size() ? e.zero_points[i] : 0;
}

struct Grid : RoundingGrid {
  Grid(const Encoding& e, size_t i)
      : RoundingGrid{e.scales[i], 1.0f / e.scales[i], static_cast<float>(e.quant_min - zero_point(e, i)),
                     static_cast<float>(e.quant_max - zero_point(e, i))} {}
  void round(const float* from, float* to, int64_t n) const {
    HWY_DYNAMIC_DISPATCH(round_all)(*this, from, to, n);
  }
};

// Memory that is used again and set as a whole, but for the zeros behind it, which vector code may read.
Tensor unset_like(const Tensor& tensor, float** elements) {
  const size_t size = tensor.size_bytes(), padded = (size + 63) / 64 * 64 + 64;
  auto block = OwnedBlock::take(recycled_memory(), padded, "a constant");
  if (!block.ok()) {
    std::byte* bytes = nullptr;
    Tensor out = Tensor::allocate(DType::f32, tensor.shape, &bytes);
    *elements = reinterpret_cast<float*>(bytes);
    return out;
  }
  std::byte* bytes = block->data();
  std::memset(bytes + size, 0, padded - size);
  *elements = reinterpret_cast<float*>(bytes);
  return {DType::f32, tensor.shape, {}, bytes, std::make_shared<const OwnedBlock>(std::move(block).value())};
}

}  // namespace

void round_to(const Encoding& encoding, float* x, int64_t n, cpu::Pool& pool) {
  const Grid grid(encoding, 0);
  pool.for_ranges(n, 1 << 15,
                  [&](int64_t begin, int64_t end) { grid.round(x + begin, x + begin, end - begin); });
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
  float* to = nullptr;
  Tensor out = unset_like(from, &to);
  const ScaleIndex index(from.shape, encoding);
  const float* x = from.values<float>().data();
  const int64_t count = from.count(), run = std::min(index.run(), std::max<int64_t>(count, 1));
  for (int64_t i = 0; i < count; i += run)
    Grid(encoding, index(i)).round(x + i, to + i, std::min(run, count - i));
  return out;
}

namespace {

// Whether only rows are taken of a table, to its own grid: they are rounded there, and the whole of a
// language model's words need no copy.
bool is_rounded_by_rows(const Graph& graph, const Value& table) {
  return table.encoding->axis < 0 && std::all_of(table.users.begin(), table.users.end(), [&](NodeId id) {
           const Node& user = graph.node(id);
           return user.op == Op::embedding && graph.value(user.output()).encoding == table.encoding;
         });
}

}  // namespace

Graph with_rounded_constants(const Graph& graph, cpu::Pool& pool, const RoundedConstants& which) {
  Graph out = graph;
  std::vector<bool> left(graph.value_count(), false);
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op != Op::convolution && node.op != Op::linear) continue;
    if (!which.weights) left[node.input(1).index] = true;
    if (!which.biases) continue;
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
  std::vector<ValueId> all;
  for (const Value& v : graph.values())
    if (v.kind == ValueKind::constant && v.encoding && v.type.dtype == DType::f32 && !v.users.empty() &&
        !left[v.id.index] && !is_rounded_by_rows(graph, v))
      all.push_back(v.id);
  pool.for_each(all.size(), [&](size_t i) {
    const Value& v = graph.value(all[i]);
    out.value(v.id).constant = rounded(v.constant, *v.encoding);
  });
  return out;
}

}  // namespace sixfold
#endif
