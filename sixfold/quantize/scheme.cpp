#include "sixfold/quantize/scheme.h"

#include <algorithm>
#include <cmath>

namespace sixfold {
namespace {

struct Row {
  std::string_view name;
  Scheme scheme;
};
constexpr Row kSchemes[] = {
    {"8a8w", {8, 8, false}},   {"8a4w", {8, 4, false}},    {"16a16w", {16, 16, false}},
    {"16a8w", {16, 8, false}}, {"16a4w", {16, 4, false}},  {"16a4w_block", {16, 4, true}},
    {"16a2w", {16, 2, false}}, {"fp16a8w", {0, 8, false}}, {"fp16", {0, 0, false}}};

}  // namespace

Result<Scheme> scheme_of(std::string_view name) {
  std::string known;
  for (const Row& row : kSchemes) {
    if (row.name == name) return row.scheme;
    known += cat(known.empty() ? "" : ", ", row.name);
  }
  return invalid_argument("the precision is ", name, ", expected one of ", known);
}

std::string to_text(const Scheme& scheme) {
  for (const Row& row : kSchemes)
    if (row.scheme == scheme) return std::string(row.name);
  return cat(scheme.activation_bits, "a", scheme.weight_bits, "w");
}

Encoding encoding_for(Range range, int bits, bool symmetric) {
  const double low = std::min(range.min, 0.0f), high = std::max(range.max, 0.0f);
  const double steps = std::ldexp(1.0, bits) - 1;
  Encoding e;
  if (symmetric) {
    e.storage = bits <= 8 ? DType::i8 : DType::i16;
    e.quant_max = static_cast<int64_t>(steps / 2);
    // The device's 16-bit factors are two signed bytes: what is above 127 * 256 + 127 is cut.
    if (bits > 8) e.quant_max = 32639;
    e.quant_min = -e.quant_max;
  } else {
    e.storage = bits <= 8 ? DType::u8 : DType::u16;
    e.quant_max = static_cast<int64_t>(steps);
  }
  double scale = symmetric ? std::max(-low, high) / static_cast<double>(e.quant_max) : (high - low) / steps;
  // Below that, the reciprocal is no float any more.
  constexpr double kLeast = 1e-35;
  if (!(scale > kLeast)) scale = 1 / steps;
  const auto rounded = static_cast<float>(scale);
  e.scales = {rounded};
  e.zero_points = {0};
  if (!symmetric)
    e.zero_points[0] = static_cast<int32_t>(std::clamp(std::nearbyint(-low / scale), 0.0, steps));
  return e;
}

}  // namespace sixfold
