#include "sixfold/lower/types.h"

#include <algorithm>
#include <cmath>

namespace sixfold {

using qnn::DataType;

// The device computes integers in 32 bits.
DataType device_type(DType dtype) {
  switch (dtype) {
    case DType::i64:
      return DataType::i32;
    case DType::f64:
    case DType::bf16:
      return DataType::f32;
    default:
      return qnn::plain_type(dtype);
  }
}

DataType fixed_type(const Encoding& e) {
  const int64_t range = e.quant_max - e.quant_min;
  const bool is_unsigned = e.quant_min >= 0;
  if (range <= 255) return is_unsigned ? DataType::ufixed8 : DataType::sfixed8;
  if (range <= 65535) return is_unsigned ? DataType::ufixed16 : DataType::sfixed16;
  return is_unsigned ? DataType::ufixed32 : DataType::sfixed32;
}

qnn::Quantization quantization_of(const Encoding& e, const Shape& order) {
  const auto zero = [&](size_t i) { return i < e.zero_points.size() ? -e.zero_points[i] : 0; };
  const int64_t range = e.quant_max - e.quant_min;
  const uint32_t bits = range <= 3 ? 2 : range <= 15 ? 4 : 0;
  if (e.axis < 0) {
    const qnn::ScaleOffset all{e.scales.empty() ? 0 : e.scales[0], zero(0)};
    if (bits) return qnn::BitWidthScaleOffset{bits, all};
    return all;
  }
  int32_t axis = e.axis;
  for (size_t i = 0; i < order.size(); ++i)
    if (order[i] == e.axis) axis = static_cast<int32_t>(i);
  if (e.block > 0) {
    // Two levels: a channel's scale is a sixteenth of its largest block's, a block's is 1 to 16 of those.
    qnn::BlockExpansion out{.axis = axis};
    const auto channels = static_cast<size_t>(e.zero_points.empty() ? 0 : e.zero_points.size());
    const size_t count = channels ? channels : 1;
    out.blocks = static_cast<uint32_t>(e.scales.size() / count);
    for (size_t c = 0; c < count; ++c) {
      const auto* first = e.scales.data() + c * out.blocks;
      const float scale = *std::max_element(first, first + out.blocks) / 16;
      out.channels.push_back({scale, 0});
      for (size_t b = 0; b < out.blocks; ++b)
        out.block_scales.push_back(
            static_cast<uint8_t>(std::clamp(std::nearbyint(first[b] / scale), 1.0f, 16.0f)));
    }
    return out;
  }
  std::vector<qnn::ScaleOffset> channels;
  for (size_t i = 0; i < e.scales.size(); ++i) channels.push_back({e.scales[i], zero(i)});
  if (bits) return qnn::BitWidthAxisScaleOffset{bits, axis, std::move(channels)};
  return qnn::AxisScaleOffset{axis, std::move(channels)};
}

std::vector<uint32_t> to_extents(const Dims& dims) {
  std::vector<uint32_t> out;
  for (const Dim& d : dims) out.push_back(static_cast<uint32_t>(d.value_or(0)));
  if (out.empty()) out.push_back(1);
  return out;
}

}  // namespace sixfold
