#include "sixfold/lower/fit.h"

#include <algorithm>
#include <cmath>

namespace sixfold {

Encoding fitted(const Tensor& data, DType storage) {
  const Tensor flat = to_contiguous(data);
  double low = 0, high = 0;
  for (int64_t i = 0; i < flat.count(); ++i) {
    const double x = element_real(flat, i);
    if (!std::isfinite(x)) continue;  // clamped to the end of the range
    low = std::min(low, x);
    high = std::max(high, x);
  }
  Encoding e{.storage = storage};
  const int bits = static_cast<int>(size_of(storage)) * 8;
  const bool symmetric = is_signed(storage);
  const auto steps = std::ldexp(1.0, bits) - 1;
  e.quant_min = symmetric ? -static_cast<int64_t>(steps / 2) : 0;
  e.quant_max = static_cast<int64_t>(symmetric ? steps / 2 : steps);
  const double most = std::max(-low, high);
  double scale = symmetric ? most / static_cast<double>(e.quant_max) : (high - low) / steps;
  if (scale < 1e-30) scale = 1 / steps;
  e.scales = {static_cast<float>(scale)};
  e.zero_points = {symmetric ? 0 : static_cast<int32_t>(std::nearbyint(-low / scale))};
  return e;
}

std::optional<qnn::ScaleOffset> coarser(const qnn::TensorSpec& tensor, float finest) {
  const auto* grid = std::get_if<qnn::ScaleOffset>(&tensor.quantization);
  if (!grid || grid->scale >= finest) return std::nullopt;
  const DType storage = qnn::storage_of(tensor.dtype);
  const double least = is_signed(storage) ? -std::ldexp(1.0, static_cast<int>(size_of(storage)) * 8 - 1) : 0;
  const double low = (least + grid->offset) * static_cast<double>(grid->scale) / static_cast<double>(finest);
  return qnn::ScaleOffset{finest, static_cast<int32_t>(std::nearbyint(low) - least)};
}

}  // namespace sixfold
