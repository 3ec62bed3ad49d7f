// Pools on the NPU: windows over images, channels last. Every window lies within the image: what hangs over
// its edge was padded before (htp.cpp), or is padded by the op where its numbers are torch's.
#include <algorithm>

#include "sixfold/lower/fit.h"
#include "sixfold/lower/merge_axes.h"
#include "sixfold/ops/pool/halves.h"

namespace sixfold::lower {
namespace {

using U32s = std::vector<uint32_t>;

// Windows of one pool, spatial axes only.
struct Windows {
  Shape in, out, kernel, stride, before, after;  // after: what the last window needs, at least 0
};
Windows windows(Lowering& l) {
  Windows w;
  const Shape in = l.shape(), out = l.out_shape();
  w.in.assign(in.begin() + 2, in.end());
  w.out.assign(out.begin() + 2, out.end());
  w.kernel = l.attrs().ints("kernel");
  w.stride = l.attrs().ints("stride");
  w.before = l.attrs().ints("padding");
  for (size_t i = 0; i < w.in.size(); ++i)
    w.after.push_back(
        std::max<int64_t>((w.out[i] - 1) * w.stride[i] + w.kernel[i] - w.in[i] - w.before[i], 0));
  return w;
}
bool is_padded(const Windows& w) {
  const auto positive = [](int64_t v) { return v > 0; };
  return std::any_of(w.before.begin(), w.before.end(), positive) ||
         std::any_of(w.after.begin(), w.after.end(), positive);
}

U32s to_words(const Shape& s) { return {s.begin(), s.end()}; }

// [N, spatial..., C] with other spatial extents.
U32s image(const Shape& batch_and_channels, const Shape& spatial) {
  U32s d{static_cast<uint32_t>(batch_and_channels[0])};
  for (const int64_t e : spatial) d.push_back(static_cast<uint32_t>(e));
  d.push_back(static_cast<uint32_t>(batch_and_channels[1]));
  return d;
}

// x: [N, spatial..., C], with so much of a number around it.
TensorRef padded(Lowering& l, TensorRef x, const Windows& w, float value) {
  U32s dims = l.spec(x).dims, amount{0, 0};
  for (size_t i = 0; i < w.in.size(); ++i) {
    dims[i + 1] += static_cast<uint32_t>(w.before[i] + w.after[i]);
    amount.push_back(static_cast<uint32_t>(w.before[i]));
    amount.push_back(static_cast<uint32_t>(w.after[i]));
  }
  amount.insert(amount.end(), {0, 0});
  const TensorRef y = l.temp(dims, x);
  l.add("Pad", {x}, {y},
        {{"scheme", uint32_t{0}},
         words("pad_amount", {static_cast<uint32_t>(dims.size()), 2}, std::move(amount)),
         {"pad_constant_value", value}});
  return y;
}

// A pool over the spatial axes of x: [N, ..., C]. The library merges a Pad of zeros into one of an image,
// where padding does not count unless it is said. It merges none into a volume's; there the word makes it
// average planes first, rounded and cut to the output's range.  [htp.pool.5]
TensorRef pool(Lowering& l, const char* type, TensorRef x, const Shape& kernel, const Shape& stride,
               TensorRef y, uint32_t rows_after = 0) {
  const auto axes = static_cast<uint32_t>(kernel.size());
  U32s pads(2 * axes, 0);
  pads[1] = rows_after;
  std::vector<Param> params = {words("filter_size", to_words(kernel)),
                               words("stride", to_words(stride)),
                               words("pad_amount", {axes, 2}, std::move(pads)),
                               {"rounding_mode", uint32_t{0}}};
  if (std::string_view(type) != "PoolMax2d") params.push_back({"count_pad_for_edges", kernel.size() < 3});
  l.add(type, {x}, {y}, std::move(params));
  return y;
}

// Whether the library takes such windows from the wrong places. Behind another op it merges a Pad into an
// average: it is wrong then unless windows overlap and have an odd number of pixels, up to five, along each
// axis, and with floats unless they are square and padded by half of that.  [htp.pool.3]
bool is_misplaced(const Lowering& l, const Windows& w) {
  const Node* before = l.graph().producer(l.node().input(0));
  const bool behind_padding = before && before->op == Op::pad;
  if (!is_padded(w) && !behind_padding) return false;
  for (size_t i = 0; i < 2; ++i)
    if (w.kernel[i] > 5 || w.kernel[i] % 2 == 0 || w.stride[i] > 3 ||
        (w.kernel[i] > 1 && w.stride[i] >= w.kernel[i]))
      return true;
  const auto is_half = [&](size_t i) { return w.before[i] == w.kernel[i] / 2 && w.after[i] <= w.before[i]; };
  return !l.quantized() && (behind_padding || !(w.kernel[0] == w.kernel[1] && is_half(0) && is_half(1)));
}

// An average as a convolution, each channel with a filter of equal weights.
void average_by_filter(Lowering& l, const Windows& w, TensorRef x, TensorRef y) {
  const auto channels = static_cast<uint32_t>(l.shape()[1]);
  const Shape shape{w.kernel[0], w.kernel[1], 1, static_cast<int64_t>(channels)};
  std::byte* bytes = nullptr;
  Tensor filter = Tensor::allocate(DType::f32, shape, &bytes);
  std::fill_n(reinterpret_cast<float*>(bytes), filter.count(),
              1.0f / static_cast<float>(w.kernel[0] * w.kernel[1]));
  Encoding e;
  if (l.quantized()) e = fitted(filter, DType::u8);
  U32s pads;
  for (size_t i = 0; i < 2; ++i)
    pads.insert(pads.end(), {static_cast<uint32_t>(w.before[i]), static_cast<uint32_t>(w.after[i])});
  std::vector<Param> params = {words("stride", to_words(w.stride)),
                               words("pad_amount", {2, 2}, std::move(pads)), words("dilation", {1, 1})};
  const bool depthwise = channels > 2;
  if (!depthwise) params.push_back({"group", channels});
  l.add(depthwise ? "DepthWiseConv2d" : "Conv2d",
        {x, l.constant(std::move(filter), l.quantized() ? &e : nullptr)}, {y}, std::move(params));
}

// The library takes windows of even sides that do not overlap as ones of half the sides and then two by two,
// with what is between cut to the output's range, which is smaller than that of fewer pixels. A row that no
// window reaches keeps it from that.  [htp.pool.6]
bool is_halved(const Windows& w) {
  for (size_t i = 0; i < 2; ++i)
    if (!is_halved_side(w.in[i] + w.before[i] + w.after[i], w.out[i], w.kernel[i], w.stride[i])) return false;
  return true;
}
// Of floats, where rows or columns are left over, it halves past the end and may crash.  [htp.pool.8]
bool has_rest(const Windows& w) {
  for (size_t i = 0; i < 2; ++i)
    if ((w.in[i] + w.before[i] + w.after[i]) % w.kernel[i] != 0) return true;
  return false;
}

// Windows along one axis as those of an image one pixel high.
Windows of_line(const Windows& w) {
  return {{1, w.in[0]}, {1, w.out[0]}, {1, w.kernel[0]}, {1, w.stride[0]}, {0, w.before[0]}, {0, w.after[0]}};
}

// x: [N, H, W, C]
void average_of_image(Lowering& l, const Windows& w, TensorRef x, TensorRef y) {
  if (is_misplaced(l, w)) return average_by_filter(l, w, x, y);
  if (is_halved(w) && (l.quantized() || has_rest(w)))
    return (void)pool(l, "PoolAvg2d", x, w.kernel, w.stride, y, 1);
  // The op's own padding gives other numbers when it is not the same on all sides.
  if (is_padded(w)) x = padded(l, x, w, 0);
  pool(l, "PoolAvg2d", x, w.kernel, w.stride, y);
}

// The smallest number of a float, or of the grid.
float lowest(const Lowering& l) {
  const Encoding* e = l.quantized() ? l.encoding(0) : nullptr;
  if (!e) return -65504;
  return e->scales[0] * static_cast<float>(e->quant_min - (e->zero_points.empty() ? 0 : e->zero_points[0]));
}

// Steps of two with floats: the library reads past the end with seven pixels, has zeros beside even windows
// that are padded, and crashes where windows are higher than a pixel and one wide.  [htp.pool.9]
bool is_misread(const Lowering& l, const Windows& w) {
  if (l.quantized()) return false;
  for (size_t i = 0; i < 2; ++i) {
    if (w.stride[i] != 2) continue;
    const int64_t k = w.kernel[i];
    if (k == 7 || (k == 1 && w.kernel[1 - i] > 1) || (k % 2 == 0 && w.before[i] + w.after[i] > 0))
      return true;
  }
  return false;
}

// The maxima of all windows, of which every so many are taken.
void max_of_all(Lowering& l, const Windows& w, TensorRef x, TensorRef y) {
  U32s all = l.spec(x).dims, end = all, step(4, 1);
  for (size_t i = 0; i < 2; ++i) {
    all[i + 1] -= static_cast<uint32_t>(w.kernel[i] - 1);
    end[i + 1] = static_cast<uint32_t>((w.out[i] - 1) * w.stride[i] + 1);
    step[i + 1] = static_cast<uint32_t>(w.stride[i]);
  }
  add_slice(l, pool(l, "PoolMax2d", x, w.kernel, {1, 1}, l.temp(all, y)), end, step, y);
}

// [N, 1, L, C] up to a length. One window at the beginning of a line of 8 or 16 has others' numbers.
// [htp.pool.10]
TensorRef first_of_line(Lowering& l, TensorRef x, int64_t length) {
  U32s dims = l.spec(x).dims;
  if (dims[2] == static_cast<uint32_t>(length)) return x;
  dims[2] = static_cast<uint32_t>(length);
  return beginning(l, x, dims);
}

}  // namespace

// The device's own padding is of zeros, which would win over what is negative. [htp.pool.1]
void max_pool(Lowering& l) {
  if (l.is_used(1)) return l.refuse("its indices are used; the device gives values only  [htp.pool.2]");
  for (const int64_t d : l.attrs().ints("dilation"))
    if (d != 1) return l.refuse("the device has no dilated windows");
  const Windows w = windows(l);
  const Shape in = l.shape();
  TensorRef x = l.in();
  if (is_padded(w)) x = padded(l, x, w, lowest(l));
  const TensorRef y = l.out();
  const char* type = "PoolMax2d";
  if (w.in.size() == 2 && is_misread(l, w)) return max_of_all(l, w, x, y);
  if (w.in.size() == 2) return (void)pool(l, type, x, w.kernel, w.stride, y);
  const U32s dims = l.spec(x).dims;
  if (w.in.size() == 1) {
    x = l.reshape(x, {dims[0], 1, dims[1], dims[2]});
    if (w.out[0] == 1) x = first_of_line(l, x, w.kernel[0]);
    const TensorRef part = l.temp(image(in, {1, w.out[0]}), y);
    pool(l, type, x, {1, w.kernel[0]}, {1, w.stride[0]}, part);
    return l.add("Reshape", {part}, {y});
  }
  // Planes of the volume first, then along its depth.
  x = l.reshape(x, {dims[0] * dims[1], dims[2], dims[3], dims[4]});
  const auto depth = static_cast<int64_t>(dims[1]);
  const Shape planes{in[0] * depth, in[1]};
  x = pool(l, type, x, {w.kernel[1], w.kernel[2]}, {w.stride[1], w.stride[2]},
           l.temp(image(planes, {w.out[1], w.out[2]}), y));
  x = l.reshape(x, image(in, {depth, w.out[1] * w.out[2]}));
  x = pool(l, type, x, {w.kernel[0], 1}, {w.stride[0], 1},
           l.temp(image(in, {w.out[0], w.out[1] * w.out[2]}), y));
  l.add("Reshape", {x}, {y});
}

// Divided by the window's size; other divisors are a factor that follows (htp.cpp).
void avg_pool(Lowering& l) {
  if (!is_float(l.type().dtype)) return l.refuse("the device averages floats only");
  const Windows w = windows(l);
  if (is_padded(w) && !l.attrs().flag("count_include_pad")) return l.refuse("padding that does not count");
  TensorRef x = l.in();
  const TensorRef y = l.out();
  if (w.in.size() == 2) return average_of_image(l, w, x, y);
  if (w.in.size() == 1) {
    const TensorRef part = l.temp(image(l.shape(), {1, w.out[0]}), y);
    average_of_image(l, of_line(w), l.reshape(x, image(l.shape(), {1, w.in[0]})), part);
    return l.add("Reshape", {part}, {y});
  }
  if (is_padded(w)) x = padded(l, x, w, 0);
  // On a grid, averages along the depth alone are wrong as a volume's  [htp.pool.4]
  if (l.quantized() && w.kernel[1] == 1 && w.kernel[2] == 1 && w.stride[1] == 1 && w.stride[2] == 1) {
    const U32s dims = l.spec(x).dims;
    const Shape in = l.shape();
    const auto pixels = static_cast<int64_t>(dims[2]) * dims[3];
    x = l.reshape(x, image(in, {static_cast<int64_t>(dims[1]), pixels}));
    const TensorRef part = l.temp(image(in, {w.out[0], pixels}), y);
    pool(l, "PoolAvg2d", x, {w.kernel[0], 1}, {w.stride[0], 1}, part);
    return l.add("Reshape", {part}, {y});
  }
  // Nor are those of planes alone: one step is added.  [htp.pool.7]
  if (l.quantized() && w.kernel[0] == 1 && w.stride[0] == 1) {
    const U32s dims = l.spec(x).dims;
    const Shape planes{static_cast<int64_t>(dims[0]) * dims[1], l.shape()[1]};
    x = l.reshape(x, image(planes, {static_cast<int64_t>(dims[2]), static_cast<int64_t>(dims[3])}));
    const TensorRef part = l.temp(image(planes, {w.out[1], w.out[2]}), y);
    pool(l, "PoolAvg2d", x, {w.kernel[1], w.kernel[2]}, {w.stride[1], w.stride[2]}, part);
    return l.add("Reshape", {part}, {y});
  }
  pool(l, "PoolAvg3d", x, w.kernel, w.stride, y);
}

}  // namespace sixfold::lower
