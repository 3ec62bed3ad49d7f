#include "sixfold/lower/cut_bias.h"

#include <algorithm>
#include <cmath>

namespace sixfold {
namespace {

// Of each output channel's integers.
std::vector<double> sums_of(const Tensor& weight, const Encoding& e, int64_t channels) {
  constexpr float kRound = 12582912;  // 1.5 * 2^23: added and taken away again, it leaves a whole number
  const Tensor flat = to_contiguous(weight);
  const auto width = static_cast<size_t>(flat.count() / std::max<int64_t>(channels, 1));
  const auto low = static_cast<float>(e.quant_min), high = static_cast<float>(e.quant_max);
  std::vector<double> out(static_cast<size_t>(channels), 0.0);
  for (size_t c = 0; c < out.size(); ++c) {
    const float inverse = 1 / e.scales[e.axis < 0 ? 0 : c];
    for (const float x : flat.values<float>().subspan(c * width, width))
      out[c] += static_cast<double>((std::clamp(x * inverse, low, high) + kRound) - kRound);
  }
  return out;
}

}  // namespace

Tensor biases_of_cut_sums(const Tensor* bias, const Tensor* weight, const Encoding& x, const Encoding& w,
                          int64_t channels) {
  const auto cut = static_cast<double>(cut_of_sums(x, w));
  const bool rounds = is_wide(w);  // the bias; else it is cut
  const double most = std::floor(2147483647 / cut) - 1;
  std::vector<double> sums(static_cast<size_t>(channels), 0.0);
  if (weight && x.zero_points[0] != 0) sums = sums_of(*weight, w, channels);
  std::byte* bytes = nullptr;
  Tensor out = Tensor::allocate(DType::i32, {channels}, &bytes);
  for (size_t c = 0; c < sums.size(); ++c) {
    const double unit = static_cast<double>(x.scales[0]) * w.scales[w.axis < 0 ? 0 : c];
    const double wanted = bias ? element_real(*bias, static_cast<int64_t>(c)) / unit : 0.0;
    const double part = sums[c] * x.zero_points[0];
    const double middle = std::nearbyint((wanted - part) / cut + 0.5);
    const double whole = std::clamp(middle + std::floor(part / cut + 0.5), -most, most);
    // Biases go through floats on the device, which may move them by some units: away from where it matters.
    const double inside = rounds || whole == 0 ? 0 : whole > 0 ? 0.5 : -0.5;
    const double number = cut * (whole + inside);
    reinterpret_cast<int32_t*>(bytes)[c] = static_cast<int32_t>(number);
  }
  return out;
}

}  // namespace sixfold
