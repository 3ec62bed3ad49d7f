// Windows that take the largest or the mean, on the emulator. docs/emulator.md says how means are rounded.
#include <algorithm>
#include <cmath>
#include <vector>

#include "sixfold/cpu/quant_conv.h"
#include "sixfold/emulator/kernel.h"
#include "sixfold/emulator/numbers.h"
#include "sixfold/ops/pool/halves.h"

namespace sixfold::emulator {
namespace {

struct Pooling {
  cpu::QuantWindow window;
  bool mean = false, count_padding = false;
  DataType dtype;
  int64_t zero_in = 0, zero_out = 0;
  Limits limits;
  bool same = true;  // one encoding on both sides
  float factor = 1;  // input scale / output scale
  cpu::Rounding rounding = cpu::Rounding::vector;
  bool reduces = false;  // 16 bits: the mean is rounded once

  // The rows and columns of the input under a window.
  struct Range {
    int64_t begin, end;
  };
  static Range range(int64_t at, int64_t stride, int64_t pad, int64_t taps, int64_t extent) {
    const int64_t first = at * stride - pad;
    return {std::max<int64_t>(first, 0), std::min(first + taps, extent)};
  }

  // How the sum of so many numbers, zero points taken out, becomes their mean.
  struct Mean {
    enum class Way : uint8_t { reduced, halves_up, scaled } way = Way::scaled;
    int64_t count = 1;
    int parts = 0;  // places that the multiplier's product is rounded to first; 0: none
    cpu::QuantChannels channel;
    cpu::QuantOutput out;
  };
  // Means of 8 bits of two by two, of each number once, but of one window alone.
  bool is_quarter() const {
    const cpu::QuantWindow& w = window;
    return mean && qnn::size_of(dtype) == 1 && w.height == 2 && w.width == 2 && w.stride_y == 2 &&
           w.stride_x == 2 && w.pad_top == 0 && w.pad_left == 0 && w.out_height * w.out_width > 1;
  }
  Mean mean_of(int64_t count) const {
    Mean m{.count = count};
    // With 16 bits windows that do not overlap have a multiplier of 15 bits for the count, too.
    const bool scaled =
        qnn::size_of(dtype) == 2 && window.stride_y >= window.height && window.stride_x >= window.width;
    if (reduces) {
      m.way = Mean::Way::reduced;
    } else if (same && !scaled && rounding == cpu::Rounding::vector) {
      m.way = Mean::Way::halves_up;
    } else {
      m.out = {rounding, static_cast<int32_t>(zero_out), static_cast<int32_t>(limits.min),
               static_cast<int32_t>(limits.max)};
      cpu::set_factor(m.channel, 0, rounding, static_cast<double>(factor * (1 / static_cast<float>(count))));
      m.out.lefts = m.channel.left[0] > 0;
      if (is_quarter() && m.channel.right[0] > 15) m.parts = m.channel.right[0] - 12;
    }
    return m;
  }
  int64_t apply(const Mean& m, int64_t sum) const {
    if (m.way == Mean::Way::reduced) {
      const double steps =
          static_cast<double>(sum) * static_cast<double>(factor) / static_cast<double>(m.count);
      const double q = std::floor(steps + 0.5) + static_cast<double>(zero_out);
      return static_cast<int64_t>(
          std::clamp(q, static_cast<double>(limits.min), static_cast<double>(limits.max)));
    }
    if (m.way == Mean::Way::halves_up) {
      const int64_t total = 2 * (sum + zero_in * m.count) + m.count;
      return std::clamp(total >= 0 ? total / (2 * m.count) : -((-total + 2 * m.count - 1) / (2 * m.count)),
                        limits.min, limits.max);
    }
    if (m.parts > 0) {
      const int64_t parts = (sum * m.channel.multiplier[0] + (1 << 11)) >> 12;
      const int64_t half = int64_t{1} << (m.parts - 1);
      return std::clamp(((parts + half) >> m.parts) + zero_out, limits.min, limits.max);
    }
    return requantize(static_cast<int32_t>(std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX)), m.channel, 0,
                      m.out);
  }

  // Of floats. Overlapping windows of 3 by 3 or 5 by 5 are filters of halves. The vector unit, whose ties go
  // away from zero, has those of 2 by 2, even or thin ones of stride 1, and those over all of the input.
  float mean_of_floats(float sum, int64_t count) const {
    const cpu::QuantWindow& w = window;
    const bool dense = w.stride_y == 1 && w.stride_x == 1;
    if (w.height == w.width && (w.height == 3 || w.height == 5) && w.stride_y <= 2 && w.stride_x <= 2 &&
        count == w.taps() && w.out_height * w.out_width > 1)
      return to_ieee_half(sum * to_ieee_half(1.0f / static_cast<float>(count)));
    const float mean = sum / static_cast<float>(count);
    const bool vector = (w.height == 2 && w.width == 2) || w.out_height * w.out_width == 1 ||
                        (dense && (w.taps() % 2 == 0 || w.height == 1 || w.width == 1));
    return vector ? to_half(mean) : to_ieee_half(mean);
  }

  // Sum: 32 bits where they hold that of a window. whole: the mean of a window inside of the image.
  template <typename Sum, typename T>
  void pixel(const T* x, int64_t row, T* y, const Mean& whole) const {
    const cpu::QuantWindow& w = window;
    const int64_t ox = row % w.out_width, oy = row / w.out_width % w.out_height;
    const T* image = x + row / w.out_width / w.out_height * w.in_height * w.in_width * w.in_channels;
    const Range ys = range(oy, w.stride_y, w.pad_top, w.height, w.in_height);
    const Range xs = range(ox, w.stride_x, w.pad_left, w.width, w.in_width);
    const int64_t inside = std::max<int64_t>(0, ys.end - ys.begin) * std::max<int64_t>(0, xs.end - xs.begin);
    const int64_t count = count_padding ? w.taps() : std::max<int64_t>(1, inside);
    const Mean of_part = mean && count != whole.count ? mean_of(count) : whole;
    constexpr int64_t kStep = 64;
    for (int64_t first = 0; first < w.in_channels; first += kStep) {
      const int64_t n = std::min(kStep, w.in_channels - first);
      Sum sums[kStep] = {};
      T most[kStep] = {};
      bool some = false;
      for (int64_t iy = ys.begin; iy < ys.end; ++iy)
        for (int64_t ix = xs.begin; ix < xs.end; ++ix) {
          const T* from = image + (iy * w.in_width + ix) * w.in_channels + first;
          if (mean)
            for (int64_t c = 0; c < n; ++c) sums[c] += static_cast<Sum>(from[c]);
          else if (!some)
            std::copy(from, from + n, most);
          else
            for (int64_t c = 0; c < n; ++c) most[c] = from[c] > most[c] ? from[c] : most[c];
          some = true;
        }
      for (int64_t c = 0; c < n; ++c) {
        T& to = y[first + c];
        if constexpr (std::is_integral_v<T>) {
          if (mean)
            to = static_cast<T>(apply(of_part, int64_t{sums[c]} - zero_in * inside));
          else
            to = !some  ? static_cast<T>(zero_out)
                 : same ? most[c]
                        : static_cast<T>(apply(whole, most[c] - zero_in));
        } else {
          to = T(mean ? mean_of_floats(sums[c], count) : static_cast<float>(most[c]));
        }
      }
    }
  }

  void run(const Run& run) const { compute(run.ins[0], run.outs[0], run.pool); }
  void compute(const std::byte* in, std::byte* out, cpu::Pool& pool) const {
    with_type(dtype, [&](auto t) {
      using T = decltype(t);
      const T* x = reinterpret_cast<const T*>(in);
      T* y = reinterpret_cast<T*>(out);
      const int64_t work = window.in_channels * (window.taps() + 1);
      const Mean whole = mean_of(mean ? window.taps() : 1);
      const auto rows = [&](auto sum) {
        pool.for_ranges(window.rows(), std::max<int64_t>(1, 32768 / work), [&](int64_t begin, int64_t end) {
          for (int64_t row = begin; row < end; ++row)
            pixel<decltype(sum)>(x, row, y + row * window.in_channels, whole);
        });
      };
      if constexpr (!std::is_integral_v<T>)
        rows(float{});
      else if (sizeof(T) <= 2 && window.taps() < 32768)
        rows(int32_t{});
      else
        rows(int64_t{});
    });
  }
};

// Means of means: what lies between is on the output's grid.
struct Staged {
  std::vector<Pooling> stages;
  size_t half = 0;  // of the scratch: stages write to one and the other

  void run(const Run& run) const {
    const std::byte* from = run.ins[0];
    for (size_t i = 0; i < stages.size(); ++i) {
      std::byte* to = i + 1 == stages.size() ? run.outs[0] : run.scratch + i % 2 * half;
      stages[i].compute(from, to, run.pool);
      from = to;
    }
  }
};

// The mean of one large image of few channels is a reduction: 4,096 points or more in tiles of 8 by 4.
bool is_reduced(const cpu::QuantWindow& w) {
  const auto tiles = [](int64_t extent, int64_t side) { return (extent + side - 1) / side * side; };
  return w.batch == 1 && w.in_channels < 32 && w.out_height * w.out_width == 1 && w.height == w.in_height &&
         w.width == w.in_width && tiles(w.in_height, 8) * tiles(w.in_width, 4) >= 4096;
}

bool is_halved(const cpu::QuantWindow& w) {
  return is_halved_side(w.in_height, w.out_height, w.height, w.stride_y) &&
         is_halved_side(w.in_width, w.out_width, w.width, w.stride_x) &&
         w.out_height == w.in_height / w.height && w.out_width == w.in_width / w.width;
}

Staged halves_of(const Pooling& whole, size_t element) {
  Staged out;
  Pooling last = whole;
  std::vector<Pooling> backwards;
  while (is_halved(last.window)) {
    Pooling first = last;
    first.window.height = first.window.stride_y = last.window.height / 2;
    first.window.width = first.window.stride_x = last.window.width / 2;
    first.window.out_height = last.window.in_height / first.window.height;
    first.window.out_width = last.window.in_width / first.window.width;
    last.window.in_height = first.window.out_height, last.window.in_width = first.window.out_width;
    last.window.height = last.window.stride_y = last.window.width = last.window.stride_x = 2;
    last.same = true, last.factor = 1, last.zero_in = last.zero_out;
    backwards.push_back(last);
    out.half =
        std::max(out.half, static_cast<size_t>(first.window.rows() * first.window.in_channels) * element);
    last = first;
  }
  backwards.push_back(last);
  out.stages.assign(backwards.rbegin(), backwards.rend());
  out.half = (out.half + 63) / 64 * 64;
  return out;
}

struct Read {
  cpu::QuantWindow window;
  int64_t pad_bottom = 0, pad_right = 0;
};
Result<Read> read_pool(const OpView& op) {
  const TensorDef &x = op.in(0), &y = op.out();
  if (x.rank() != 4 || y.rank() != 4) return unsupported("in[0] has rank ", x.rank(), ", out[0] ", y.rank());
  if (x.count() == 0 || y.count() == 0) return unsupported("a tensor is empty");
  if (x.dims[0] != y.dims[0] || x.dims[3] != y.dims[3])
    return invalid_argument("in[0] has dims ", x.dims, ", out[0] ", y.dims);
  if (x.dtype != y.dtype)
    return unsupported("in[0] is ", qnn::to_text(x.dtype), ", out[0] ", qnn::to_text(y.dtype));
  Read r;
  cpu::QuantWindow& w = r.window;
  w.batch = x.dims[0], w.in_height = x.dims[1], w.in_width = x.dims[2],
  w.in_channels = w.out_channels = x.dims[3];
  w.out_height = y.dims[1], w.out_width = y.dims[2];
  const auto filter = op.words("filter_size"), stride = op.words("stride"), pads = op.words("pad_amount");
  if (filter.empty()) return r;  // only asked about, without data
  if (filter.size() != 2 || (!stride.empty() && stride.size() != 2) || (!pads.empty() && pads.size() != 4))
    return unsupported("filter_size, stride and pad_amount have ", filter.size(), ", ", stride.size(),
                       " and ", pads.size(), " numbers");
  for (const auto& words : {filter, stride, pads})
    for (const uint32_t v : words)
      if (v > 1 << 20) return unsupported("a parameter of the window is ", v);
  w.height = filter[0], w.width = filter[1];
  if (!stride.empty()) w.stride_y = stride[0], w.stride_x = stride[1];
  if (!pads.empty()) w.pad_top = pads[0], r.pad_bottom = pads[1], w.pad_left = pads[2], r.pad_right = pads[3];
  if (w.height < 1 || w.width < 1 || w.stride_y < 1 || w.stride_x < 1)
    return unsupported("filter or stride is 0");
  const int64_t round = op.u32("rounding_mode", 0) == 1 ? 1 : 0;
  const auto extent = [&](int64_t n, int64_t taps, int64_t step) {
    return n < taps ? int64_t{0} : (n - taps + round * (step - 1)) / step + 1;
  };
  const int64_t height = extent(w.in_height + w.pad_top + r.pad_bottom, w.height, w.stride_y);
  const int64_t width = extent(w.in_width + w.pad_left + r.pad_right, w.width, w.stride_x);
  if (height != w.out_height || width != w.out_width)
    return unsupported("out[0] is ", w.out_height, " by ", w.out_width, ", the window gives ", height, " by ",
                       width);
  return r;
}

}  // namespace

Status check_pool(const OpView& op, const DeviceModel&) {
  SF_TRY(read_pool(op));
  return {};
}

Result<Step> prepare_pool(const OpView& op, Prepare& prepare) {
  SF_ASSIGN(const Read r, read_pool(op));
  const TensorDef &x = op.in(0), &y = op.out();
  prepare.use_constants();
  const ScaleOffset in = x.encoding(), out = y.encoding();
  Pooling p;
  p.window = r.window;
  p.mean = op.type.starts_with("PoolAvg");
  p.count_padding = op.boolean("count_pad_for_edges", false);
  p.dtype = x.dtype;
  p.zero_in = -in.offset, p.zero_out = -out.offset;
  p.limits = limits_of(y.dtype);
  p.same = in == out;
  p.factor = in.scale * (1 / out.scale);
  // Dense 8-bit windows are products of the matrix unit, but for small ones and those over all of the input.
  const cpu::QuantWindow& w = p.window;
  const bool padded = w.pad_top || w.pad_left || r.pad_bottom || r.pad_right;
  const bool dense = w.stride_y == 1 && w.stride_x == 1 && w.taps() > 4 && w.out_height * w.out_width > 1;
  if (p.mean && qnn::size_of(x.dtype) == 1 && !padded && dense) p.rounding = cpu::Rounding::matrix8;
  p.reduces = p.mean && qnn::size_of(x.dtype) == 2 && qnn::is_fixed(x.dtype) && !padded && is_reduced(w);
  const auto work = static_cast<uint64_t>(w.rows() * w.in_channels) * static_cast<uint64_t>(w.taps());
  if (p.mean && !padded && is_halved(w)) {
    Staged staged = halves_of(p, qnn::size_of(x.dtype));
    prepare.need_scratch(2 * staged.half);
    return prepare.step(std::move(staged), work);
  }
  return prepare.step(std::move(p), work);
}

}  // namespace sixfold::emulator
