#include "sixfold/quantize/weights.h"

#include <algorithm>
#include <cmath>

namespace sixfold {

Encoding weight_encoding(const Tensor& weight, int32_t axis, int bits) {
  const Tensor w = to_contiguous(weight);
  const int64_t most = (int64_t{1} << (bits - 1)) - 1;
  Encoding e{
      .storage = bits <= 8 ? DType::i8 : DType::i16, .quant_min = -most, .quant_max = most, .axis = axis};
  const int64_t channels = axis < 0 ? 1 : w.shape[static_cast<size_t>(axis)];
  const int64_t inner = axis < 0 ? w.count() : contiguous_strides(w.shape)[static_cast<size_t>(axis)];
  std::vector<float> largest(static_cast<size_t>(channels), 0);
  for (int64_t i = 0; i < w.count(); ++i) {
    float& m = largest[axis < 0 ? 0 : static_cast<size_t>(i / inner % channels)];
    m = std::max(m, static_cast<float>(std::fabs(element_real(w, i))));
  }
  // A channel of zeros still needs a scale; any does.
  for (const float m : largest) {
    e.scales.push_back(std::max(m / static_cast<float>(most), 1e-9f));
    e.zero_points.push_back(0);
  }
  return e;
}

std::vector<std::string> quantize_weights(Graph& graph, const WeightScheme& scheme) {
  std::vector<std::string> notes;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op != Op::convolution && node.op != Op::linear) continue;
    Value& weight = graph.value(node.input(1));
    if (weight.kind != ValueKind::constant || weight.encoding || !is_float(weight.type.dtype)) continue;
    const bool conv = node.op == Op::convolution;
    const bool per_channel = conv ? scheme.per_channel_conv : scheme.per_channel_linear;
    const int64_t channels =
        graph.dims(node.input(0))[conv ? 1 : graph.dims(node.input(0)).size() - 1].value_or(0);
    if (conv && channels % 4 != 0) {
      notes.push_back(cat(graph.origin(node).name,
                          ": its weight stays float, since HTP multiplies halves with integers ",
                          "only for input channels that are a multiple of 4, and it has ", channels));
      continue;
    }
    const int32_t axis = !per_channel ? -1 : conv && node.attrs.flag("transposed") ? 1 : 0;
    weight.encoding = weight_encoding(weight.constant, axis, 8);
  }
  return notes;
}

}  // namespace sixfold
