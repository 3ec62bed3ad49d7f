#include "sixfold/quantize/weights.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <thread>

#include "sixfold/cpu/pool.h"
#include "sixfold/quantize/statistics.h"

namespace sixfold {

namespace {

constexpr float kLeastScale = 1e-9f;

// Row i of a matrix of floats: the weights of one channel, in the order of the other axes.
class Channels {
 public:
  Channels(const Tensor& weight, int32_t axis) : weight_(to_contiguous(weight)) {
    const Shape strides = contiguous_strides(weight_.shape);
    count = axis < 0 ? 1 : weight_.shape[static_cast<size_t>(axis)];
    inner_ = axis < 0 ? weight_.count() : strides[static_cast<size_t>(axis)];
    width = count == 0 ? 0 : weight_.count() / count;
    in_place_ = weight_.dtype == DType::f32 && inner_ == width;
  }
  int64_t count = 0, width = 0;

  // Valid until the next.
  std::span<const float> row(int64_t c) {
    if (in_place_)
      return weight_.values<float>().subspan(static_cast<size_t>(c * width), static_cast<size_t>(width));
    row_.resize(static_cast<size_t>(width));
    const auto* reals = weight_.dtype == DType::f32 ? reinterpret_cast<const float*>(weight_.data) : nullptr;
    for (int64_t i = 0; i < width; ++i) {
      const int64_t at = (i / inner_ * count + c) * inner_ + i % inner_;
      row_[static_cast<size_t>(i)] = reals ? reals[at] : static_cast<float>(element_real(weight_, at));
    }
    return row_;
  }

 private:
  Tensor weight_;
  int64_t inner_ = 1;
  bool in_place_ = false;
  std::vector<float> row_;
};

float largest_of(std::span<const float> row) {
  if (const Extremes e = extremes_of(row.data(), static_cast<int64_t>(row.size())); e.finite)
    return std::max({-e.min, e.max, 0.0f});
  float most = 0;
  for (const float x : row) most = std::max(most, std::fabs(x));
  return most;
}

// f(channel, its weights), on all cores when there is much to do.
template <typename F>
void for_channels(const Tensor& any, int32_t axis, const F& f) {
  const Tensor weight = to_contiguous(any);
  constexpr int64_t kSmall = 1 << 18;
  const int64_t count = Channels(weight, axis).count;
  const size_t cores = std::max<size_t>(std::thread::hardware_concurrency(), 1);
  const size_t parts = weight.count() < kSmall
                           ? 1
                           : std::min<size_t>(4 * cores, static_cast<size_t>(std::max<int64_t>(count, 1)));
  cpu::Pool pool(parts == 1 ? 1 : cores);
  pool.for_each(parts, [&](size_t part) {
    Channels channels(weight, axis);
    const auto begin = static_cast<int64_t>(part) * count / static_cast<int64_t>(parts);
    const auto end = static_cast<int64_t>(part + 1) * count / static_cast<int64_t>(parts);
    for (int64_t c = begin; c < end; ++c) f(c, channels.row(c));
  });
}

// What rounding to steps of this size costs. Errors that all have one sign add up in the layer's sums: their
// mean counts besides their squares. Lanes, so that the compiler may use vectors.
double squared_error(std::span<const float> row, float scale, float low, float high) {
  constexpr size_t kLanes = 16;
  constexpr float kRound = 12582912;  // 1.5 * 2^23: added and taken away again, it leaves a whole number
  const float inverse = 1 / scale;
  const auto error = [&](float x) {
    const float q = std::min(std::max(x * inverse, low), high);
    return x - scale * ((q + kRound) - kRound);
  };
  float squares[kLanes] = {}, sums[kLanes] = {};
  double all_squares = 0, all = 0;
  const auto flush = [&] {
    for (size_t k = 0; k < kLanes; ++k) {
      all_squares += squares[k];
      all += sums[k];
      squares[k] = sums[k] = 0;
    }
  };
  size_t i = 0;
  for (; i + kLanes <= row.size(); i += kLanes) {
    const float* x = row.data() + i;
    for (size_t k = 0; k < kLanes; ++k) {
      const float d = error(x[k]);
      squares[k] += d * d;
      sums[k] += d;
    }
    if (i % 1024 == 1024 - kLanes) flush();
  }
  for (size_t k = 0; i < row.size(); ++i, ++k) {
    const float d = error(row[i]);
    squares[k] += d * d;
    sums[k] += d;
  }
  flush();
  return all_squares + all * all / static_cast<double>(std::max<size_t>(row.size(), 1));
}

// Few steps: cutting off the largest weights costs less than large steps for all.
float best_scale(std::span<const float> row, float low, float high) {
  const float whole = largest_of(row) / (high + 0.5f);
  float best = whole;
  double least = squared_error(row, std::max(whole, kLeastScale), low, high);
  for (int percent = 40; percent <= 110; percent += 5) {
    const float scale = whole * static_cast<float>(percent) / 100;
    if (!(scale > kLeastScale)) continue;
    if (const double e = squared_error(row, scale, low, high); e < least) {
      least = e;
      best = scale;
    }
  }
  return best;
}

Encoding signed_grid(int bits, int32_t axis) {
  // Of 16 bits the device takes two signed bytes: what is above 127 * 256 + 127 is cut.
  const int64_t most = bits > 8 ? 32639 : (int64_t{1} << (bits - 1)) - 1;
  // Of few integers each counts, so the lowest has no counterpart.
  return {.storage = bits <= 8 ? DType::i8 : DType::i16,
          .quant_min = bits <= 4 ? -most - 1 : -most,
          .quant_max = most,
          .axis = axis};
}

}  // namespace

Encoding weight_encoding(const Tensor& weight, int32_t axis, int bits) {
  Encoding e = signed_grid(bits, axis);
  const auto low = static_cast<float>(e.quant_min), high = static_cast<float>(e.quant_max);
  const int64_t count = Channels(weight, axis).count;
  e.scales.resize(static_cast<size_t>(count));
  e.zero_points.assign(static_cast<size_t>(count), 0);
  for_channels(weight, axis, [&](int64_t c, std::span<const float> row) {
    // A channel of zeros still needs a scale; any does.
    e.scales[static_cast<size_t>(c)] =
        std::max(bits <= 4 ? best_scale(row, low, high) : largest_of(row) / high, kLeastScale);
  });
  // Qualcomm's library (2.49) gives the end of the grid for a channel whose scale is 2^18 times smaller than
  // another's, whatever its sums: such weights are nothing beside the others.  [htp.weight_scale.1]
  const float least = e.scales.empty() ? 0 : *std::max_element(e.scales.begin(), e.scales.end()) / 32768;
  for (float& scale : e.scales) scale = std::max(scale, least);
  return e;
}

Encoding block_encoding(const Tensor& weight, int32_t axis, int64_t block, int bits) {
  Encoding e = signed_grid(bits, axis);
  e.block = block;
  const auto low = static_cast<float>(e.quant_min), high = static_cast<float>(e.quant_max);
  const Channels channels(weight, axis);
  const int64_t inputs = weight.shape[axis == 0 ? 1 : 0];
  const int64_t blocks = inputs / block, taps = inputs == 0 ? 0 : channels.width / inputs;
  const auto size = static_cast<size_t>(block * taps);
  e.scales.resize(static_cast<size_t>(channels.count * blocks));
  e.zero_points.assign(static_cast<size_t>(channels.count), 0);
  for_channels(weight, axis, [&](int64_t c, std::span<const float> row) {
    // Two levels: a block's scale is 1 to 16 sixteenths of the channel's.
    const float unit = std::max(largest_of(row) / (high + 0.5f), kLeastScale) / 16;
    for (int64_t b = 0; b < blocks; ++b) {
      const auto part = row.subspan(static_cast<size_t>(b) * size, size);
      const auto whole = static_cast<int>(std::ceil(largest_of(part) / (high + 0.5f) / unit));
      const int most = std::clamp(whole, 1, 16);
      int best = most;
      double least = squared_error(part, unit * static_cast<float>(most), low, high);
      for (int k = most - 1; k >= std::max(1, most / 2); --k)
        if (const double d = squared_error(part, unit * static_cast<float>(k), low, high); d < least) {
          least = d;
          best = k;
        }
      e.scales[static_cast<size_t>(c * blocks + b)] = unit * static_cast<float>(best);
    }
  });
  return e;
}

std::vector<NodeId> quantize_weights(Graph& graph, const WeightScheme& scheme) {
  std::vector<NodeId> given;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op != Op::convolution && node.op != Op::linear) continue;
    Value& weight = graph.value(node.input(1));
    if (weight.kind != ValueKind::constant || weight.encoding || !is_float(weight.type.dtype)) continue;
    const bool conv = node.op == Op::convolution;
    const bool per_channel = conv ? scheme.per_channel_conv : scheme.per_channel_linear;
    const int32_t axis = !per_channel ? -1 : conv && node.attrs.flag("transposed") ? 1 : 0;
    weight.encoding = weight_encoding(weight.constant, axis, 8);
    given.push_back(id);
  }
  return given;
}

}  // namespace sixfold
