// Data movement between channels and pixels: pixel_shuffle, pixel_unshuffle, im2col, col2im.
#include <algorithm>
#include <cstring>

#include "sixfold/cpu/kernel.h"

namespace sixfold::cpu {
namespace {

// Calls f with an unsigned integer as wide as the dtype: movement does not care what the bits mean.
template <typename F>
void with_width(DType dtype, F&& f) {
  switch (size_of(dtype)) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    default:
      return f(uint64_t{});
  }
}

constexpr int64_t kTaskElements = 16384;

struct PatchPlan {
  int64_t batch, channels, height, width;  // of the image
  int64_t out_h, out_w;                    // windows
  Shape kernel, dilation, padding, stride;
};

PatchPlan patch_plan(const KernelCall& call, const Shape& image) {
  PatchPlan p{image[0],
              image[1],
              image[2],
              image[3],
              0,
              0,
              call.attrs.ints("kernel"),
              call.attrs.ints("dilation"),
              call.attrs.ints("padding"),
              call.attrs.ints("stride")};
  const auto windows = [&](int64_t extent, size_t i) {
    return (extent + 2 * p.padding[i] - p.dilation[i] * (p.kernel[i] - 1) - 1) / p.stride[i] + 1;
  };
  p.out_h = windows(p.height, 0);
  p.out_w = windows(p.width, 1);
  return p;
}

// Windows [lo, hi) of a row whose column at `offset` (relative to the window's start) lies inside the image.
std::pair<int64_t, int64_t> inside(int64_t extent, int64_t windows, int64_t stride, int64_t offset) {
  const int64_t lo = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
  const int64_t hi = offset >= extent ? 0 : std::min((extent - 1 - offset) / stride + 1, windows);
  return {std::min(lo, windows), std::max(hi, std::min(lo, windows))};
}

}  // namespace

KernelResult pixel_shuffle(const KernelCall& call) {
  const bool up = call.op == Op::pixel_shuffle;
  const TensorDesc& small = up ? call.in[0] : call.out[0];  // many channels, few pixels
  const TensorDesc& large = up ? call.out[0] : call.in[0];
  const int64_t r = call.attrs.integer("factor");
  const size_t rank = large.rank();
  const int64_t height = small.shape[rank - 2], width = small.shape[rank - 1];
  if (large.count() == 0) return make_kernel([](const Buffers&) { return ok_status(); });
  const int64_t rows = large.count() / (width * r);  // rows of the large image: (.., c, h, i)
  const DType dtype = small.dtype;
  return make_kernel([=](const Buffers& buffers) {
    with_width(dtype, [&](auto zero) {
      using T = decltype(zero);
      const T* in = buffers.input<T>(0);
      T* out = buffers.output<T>();
      buffers.pool.for_ranges(rows, kTaskElements / (width * r), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const int64_t i = row % r, h = row / r % height, plane = row / r / height;
          const int64_t first =
              ((plane * r + i) * r * height + h) * width;  // channel plane*r*r + i*r of the small image
          for (int64_t j = 0; j < r; ++j) {
            const int64_t at = first + j * height * width;
            if (up)
              for (int64_t w = 0; w < width; ++w) out[row * width * r + w * r + j] = in[at + w];
            else
              for (int64_t w = 0; w < width; ++w) out[at + w] = in[row * width * r + w * r + j];
          }
        }
      });
    });
    return ok_status();
  });
}

KernelResult im2col(const KernelCall& call) {
  const PatchPlan p = patch_plan(call, call.in[0].shape);
  const DType dtype = call.in[0].dtype;
  return make_kernel([=](const Buffers& buffers) {
    with_width(dtype, [&](auto zero) {
      using T = decltype(zero);
      const T* in = buffers.input<T>(0);
      T* out = buffers.output<T>();
      const int64_t window = p.kernel[0] * p.kernel[1], line = p.out_h * p.out_w;
      buffers.pool.for_ranges(p.batch * p.channels * window, kTaskElements / std::max<int64_t>(line, 1),
                              [&](int64_t begin, int64_t end) {
                                for (int64_t row = begin; row < end; ++row) {
                                  const int64_t dw = row % p.kernel[1] * p.dilation[1] - p.padding[1];
                                  const int64_t dh =
                                      row / p.kernel[1] % p.kernel[0] * p.dilation[0] - p.padding[0];
                                  const T* plane = in + row / window * p.height * p.width;
                                  const auto [lo, hi] = inside(p.width, p.out_w, p.stride[1], dw);
                                  T* to = out + row * line;
                                  for (int64_t y = 0; y < p.out_h; ++y, to += p.out_w) {
                                    const int64_t h = y * p.stride[0] + dh;
                                    std::fill(to, to + p.out_w, T{});
                                    if (h < 0 || h >= p.height) continue;
                                    const T* from = plane + h * p.width + dw;
                                    for (int64_t x = lo; x < hi; ++x) to[x] = from[x * p.stride[1]];
                                  }
                                }
                              });
    });
    return ok_status();
  });
}

KernelResult col2im(const KernelCall& call) {
  const DType dtype = call.in[0].dtype;
  if (dtype != DType::f32 && dtype != DType::f64) return unsupported(call.op, " of ", dtype);
  const PatchPlan p = patch_plan(call, call.out[0].shape);
  const auto run = [p]<typename T>(const Buffers& buffers, T) {
    const T* in = buffers.input<T>(0);
    T* out = buffers.output<T>();
    const int64_t window = p.kernel[0] * p.kernel[1], line = p.out_h * p.out_w, image = p.height * p.width;
    buffers.pool.for_each(static_cast<size_t>(p.batch * p.channels), [&](size_t plane) {
      T* to = out + static_cast<int64_t>(plane) * image;
      std::fill(to, to + image, T{});
      for (int64_t k = 0; k < window; ++k) {
        const int64_t dw = k % p.kernel[1] * p.dilation[1] - p.padding[1];
        const int64_t dh = k / p.kernel[1] * p.dilation[0] - p.padding[0];
        const T* from = in + (static_cast<int64_t>(plane) * window + k) * line;
        const auto [lo, hi] = inside(p.width, p.out_w, p.stride[1], dw);
        for (int64_t y = 0; y < p.out_h; ++y, from += p.out_w) {
          const int64_t h = y * p.stride[0] + dh;
          if (h < 0 || h >= p.height) continue;
          for (int64_t x = lo; x < hi; ++x) to[h * p.width + dw + x * p.stride[1]] += from[x];
        }
      }
    });
  };
  return make_kernel([run, dtype](const Buffers& buffers) {
    if (dtype == DType::f32)
      run(buffers, float{});
    else
      run(buffers, double{});
    return ok_status();
  });
}

}  // namespace sixfold::cpu
