// Resampling of images [N, H, W, C] on the emulator.
//
// Fixed point: weights of 14 bits for each axis; products are summed exactly and scaled once, halves up.
// Cubic weights are reals. Floats: in double, rounded to half once; images twice as large, with half-pixel
// centres, in the vector unit's own floats.
#include <cmath>

#include "sixfold/cpu/qhalf.h"
#include "sixfold/emulator/elements.h"
#include "sixfold/emulator/kernel.h"
#include "sixfold/emulator/layout.h"

namespace sixfold::emulator {
namespace {

// Which inputs an output index takes, and how much of each.
struct Taps {
  int count = 1;
  std::vector<int64_t> at;      // [extent][count]
  std::vector<double> weights;  // likewise
  std::vector<int64_t> fixed;   // in 2^-14
};

enum class Mode : uint8_t { nearest, linear, cubic };
enum class Places : uint8_t { half_pixel, align_corners, asymmetric, pytorch_half_pixel };
enum class Nearest : uint8_t { floor, round_down, round_up, ceil };

struct ResizeRule {
  Mode mode = Mode::linear;
  Places places = Places::asymmetric;
  Nearest nearest = Nearest::floor;
  double cubic = -0.75;
};

ResizeRule rule_of(const OpView& op) {
  ResizeRule r;
  if (op.type == "Resize") {
    const uint32_t mode = op.u32("interpolation_mode", 0), places = op.u32("transformation_mode", 0);
    r.mode = mode == 2 ? Mode::cubic : mode == 1 ? Mode::linear : Mode::nearest;
    r.places = places == 0   ? Places::half_pixel
               : places == 1 ? Places::pytorch_half_pixel
               : places == 2 ? Places::align_corners
                             : Places::asymmetric;
    const uint32_t nearest = op.u32("nearest_mode", 0);
    r.nearest = nearest == 0   ? Nearest::round_down
                : nearest == 1 ? Nearest::round_up
                : nearest == 2 ? Nearest::floor
                               : Nearest::ceil;
    r.cubic = static_cast<double>(op.f32("cubic_coeff", -0.75f));
    return r;
  }
  r.mode = op.type == "ResizeBilinear" ? Mode::linear : Mode::nearest;
  if (op.boolean("align_corners", false)) r.places = Places::align_corners;
  if (op.boolean("half_pixel_centers", false)) r.places = Places::half_pixel;
  if (r.mode == Mode::nearest && r.places == Places::align_corners) r.nearest = Nearest::round_up;
  return r;
}

double place(const ResizeRule& rule, int64_t o, int64_t in, int64_t out) {
  const double ratio = static_cast<double>(in) / static_cast<double>(out);
  switch (rule.places) {
    case Places::half_pixel:
      return (static_cast<double>(o) + 0.5) * ratio - 0.5;
    case Places::pytorch_half_pixel:
      return out > 1 ? (static_cast<double>(o) + 0.5) * ratio - 0.5 : 0.0;
    case Places::align_corners:
      return out > 1 ? static_cast<double>(o) * static_cast<double>(in - 1) / static_cast<double>(out - 1)
                     : 0.0;
    case Places::asymmetric:
      return static_cast<double>(o) * ratio;
  }
  return 0;
}

Taps taps_of(const ResizeRule& rule, int64_t in, int64_t out) {
  Taps t;
  t.count = rule.mode == Mode::cubic ? 4 : rule.mode == Mode::linear ? 2 : 1;
  const auto inside = [&](double i) { return std::clamp<int64_t>(static_cast<int64_t>(i), 0, in - 1); };
  for (int64_t o = 0; o < out; ++o) {
    double x = place(rule, o, in, out);
    if (rule.mode == Mode::nearest) {
      // Half-pixel centres: the pixel in which the centre lies.
      const bool halves = rule.places == Places::half_pixel && rule.nearest == Nearest::floor;
      const double i = halves                                ? std::floor(x + 0.5)
                       : rule.nearest == Nearest::floor      ? std::floor(x)
                       : rule.nearest == Nearest::ceil       ? std::ceil(x)
                       : rule.nearest == Nearest::round_down ? std::ceil(x - 0.5)
                                                             : std::floor(x + 0.5);
      t.at.push_back(inside(i));
      t.weights.push_back(1);
      continue;
    }
    if (rule.mode == Mode::linear) {
      x = std::clamp(x, 0.0, static_cast<double>(in - 1));
      const double low = std::floor(x), f = x - low;
      for (const auto& [i, w] : {std::pair{low, 1 - f}, std::pair{low + 1, f}}) {
        t.at.push_back(inside(i));
        t.weights.push_back(w);
      }
      continue;
    }
    const double low = std::floor(x), f = x - low, a = rule.cubic;
    const auto near = [&](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
    const auto far = [&](double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
    const double w[] = {far(f + 1), near(f), near(1 - f), far(2 - f)};
    for (int k = 0; k < 4; ++k) {
      t.at.push_back(inside(low + k - 1));
      t.weights.push_back(w[k]);
    }
  }
  for (size_t i = 0; i < t.weights.size(); i += static_cast<size_t>(t.count)) {
    // Rounded so that they sum to one: an even image stays even.
    int64_t rest = 1 << 14;
    for (size_t k = 0; k < static_cast<size_t>(t.count); ++k) {
      const int64_t w = std::llround(t.weights[i + k] * (1 << 14));
      t.fixed.push_back(w);
      rest -= w;
    }
    t.fixed[i + (t.count > 2 ? 1 : 0)] += rest;
  }
  return t;
}

struct Resize {
  Taps rows, columns;
  int64_t batch, in_height, in_width, height, width, channels;
  bool doubles;  // linear, and both sides are twice as long, with half-pixel centres
  Codec x, y;
  double ratio;  // steps of the output for a step of the input
  Recode recode;

  // The stored numbers, whatever the encodings: the device moves them as they are.
  template <typename T>
  void nearest(const T* image, T* out, int64_t r) const {
    const T* row = image + rows.at[static_cast<size_t>(r)] * in_width * channels;
    for (int64_t c = 0; c < width; ++c)
      std::copy_n(row + columns.at[static_cast<size_t>(c)] * channels, channels, out + c * channels);
  }
  // Weights are reals, and the result is rounded once.
  template <typename T>
  T cubic(const T* image, int64_t r, int64_t c) const {
    const size_t fr = static_cast<size_t>(r) * 4, fc = static_cast<size_t>(c) * 4;
    double sum = 0;
    for (size_t i = 0; i < 4; ++i)
      for (size_t j = 0; j < 4; ++j) {
        const auto q =
            static_cast<int64_t>(image[(rows.at[fr + i] * in_width + columns.at[fc + j]) * channels]);
        sum += rows.weights[fr + i] * columns.weights[fc + j] * static_cast<double>(q + x.offset);
      }
    const double q = std::floor(sum * ratio + 0.5) - static_cast<double>(y.offset);
    return static_cast<T>(
        std::clamp(q, static_cast<double>(y.limits.min), static_cast<double>(y.limits.max)));
  }
  // a + f * (b - a), first along rows. What lies beyond the border has no part in it.
  template <typename T>
  cpu::QHalf doubled(const T* image, size_t fr, size_t fc) const {
    const auto blend = [](const cpu::QHalf& a, const cpu::QHalf& b, double f) {
      return f == 0 ? a : a + cpu::QHalf::of(static_cast<float>(f)) * (b - a);
    };
    const auto along = [&](int64_t r) {
      const auto at = [&](int64_t c) {
        return cpu::QHalf::of(static_cast<float>(image[(r * in_width + c) * channels]));
      };
      return blend(at(columns.at[fc]), at(columns.at[fc + 1]), columns.weights[fc + 1]);
    };
    return blend(along(rows.at[fr]), along(rows.at[fr + 1]), rows.weights[fr + 1]);
  }
  template <typename T>
  void pixel(const T* image, T* out, int64_t r, int64_t c) const {
    const auto nr = static_cast<size_t>(rows.count), nc = static_cast<size_t>(columns.count);
    const size_t fr = static_cast<size_t>(r) * nr, fc = static_cast<size_t>(c) * nc;
    for (int64_t k = 0; k < channels; ++k) {
      if constexpr (std::is_integral_v<T>) {
        if (rows.count == 4 && qnn::is_fixed(y.dtype)) {
          out[k] = cubic<T>(image + k, r, c);
          continue;
        }
        int64_t sum = 0;
        for (size_t i = 0; i < nr; ++i)
          for (size_t j = 0; j < nc; ++j)
            sum +=
                rows.fixed[fr + i] * columns.fixed[fc + j] *
                static_cast<int64_t>(image[(rows.at[fr + i] * in_width + columns.at[fc + j]) * channels + k]);
        if (!qnn::is_fixed(y.dtype)) {
          out[k] = static_cast<T>((sum + (1 << 27)) >> 28);
          continue;
        }
        const int64_t q = std::clamp((sum + (1 << 27)) >> 28, x.limits.min, x.limits.max);
        out[k] = static_cast<T>(recode.same ? q : recode(q, false));
      } else if (doubles) {
        out[k] = y.encode<T>(static_cast<double>(doubled(image + k, fr, fc).value()));
      } else {
        double sum = 0;
        for (size_t i = 0; i < nr; ++i)
          for (size_t j = 0; j < nc; ++j)
            sum += rows.weights[fr + i] * columns.weights[fc + j] *
                   static_cast<double>(static_cast<float>(
                       image[(rows.at[fr + i] * in_width + columns.at[fc + j]) * channels + k]));
        out[k] = y.encode<T>(sum);
      }
    }
  }
  void run(const Run& run) const {
    with_type(y.dtype, [&](auto t) {
      using T = decltype(t);
      run.pool.for_ranges(batch * height, std::max<int64_t>(1, 8192 / (width * channels)),
                          [&](int64_t begin, int64_t end) {
                            for (int64_t line = begin; line < end; ++line) {
                              const T* image = run.in<T>(0) + line / height * in_height * in_width * channels;
                              if (rows.count == 1 && columns.count == 1) {
                                nearest(image, run.out<T>() + line * width * channels, line % height);
                                continue;
                              }
                              for (int64_t c = 0; c < width; ++c)
                                pixel(image, run.out<T>() + (line * width + c) * channels, line % height, c);
                            }
                          });
    });
  }
};

}  // namespace

Status check_resize(const OpView& op, const DeviceModel&) {
  const TensorDef &x = op.in(0), &y = op.out();
  if (x.dtype != y.dtype)
    return unsupported("in[0] is ", qnn::to_text(x.dtype), ", out[0] ", qnn::to_text(y.dtype));
  if (x.rank() != 4 || y.rank() != 4 || x.dims[0] != y.dims[0] || x.dims[3] != y.dims[3] || x.count() == 0)
    return unsupported("in[0] has dims ", x.dims, ", out[0] ", y.dims,
                       ", expected [N, H, W, C] of the same N and C");
  if (op.type == "Resize" && (op.u32("interpolation_mode", 0) > 2 || op.boolean("exclude_outside", false)))
    return unsupported("interpolation_mode is ", op.u32("interpolation_mode", 0), ", exclude_outside ",
                       op.boolean("exclude_outside", false) ? "true" : "false");
  return {};
}

Result<Step> prepare_resize(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  const TensorDef &x = op.in(0), &y = op.out();
  const ResizeRule rule = rule_of(op);
  const Codec from = Codec::of(x), to = Codec::of(y);
  const bool doubles = rule.mode == Mode::linear && rule.places == Places::half_pixel &&
                       y.dims[1] == 2 * x.dims[1] && y.dims[2] == 2 * x.dims[2];
  return prepare.step(Resize{taps_of(rule, x.dims[1], y.dims[1]), taps_of(rule, x.dims[2], y.dims[2]),
                             x.dims[0], x.dims[1], x.dims[2], y.dims[1], y.dims[2], x.dims[3], doubles, from,
                             to, from.scale == to.scale ? 1.0 : from.scale / to.scale,
                             Recode::between(x, y, true)});
}

}  // namespace sixfold::emulator
