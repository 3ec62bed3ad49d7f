// Resampling of images [N, H, W, C] on the emulator.
//
// Fixed point: weights of 14 bits for each axis; products are summed exactly and scaled once, halves up.
// Cubic weights are reals. Floats: in double, rounded to half once; images twice as large, with half-pixel
// centres, in the vector unit's own floats.
#include <algorithm>
#include <cmath>
#include <vector>

#include "sixfold/cpu/half_rows.h"
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
  bool doubles;  // linear floats, both sides twice as long, with half-pixel centres
  bool whole;    // weights are whole numbers: of integers, but for cubic ones of fixed point
  Codec x, y;
  double ratio;  // steps of the output for a step of the input
  Recode recode;

  bool moves() const { return rows.count == 1 && columns.count == 1; }
  // The stored numbers, whatever the encodings: the device moves them as they are.
  template <typename T>
  void nearest(const T* image, T* out, int64_t r) const {
    const T* row = image + rows.at[static_cast<size_t>(r)] * in_width * channels;
    for (int64_t c = 0; c < width; ++c)
      std::copy_n(row + columns.at[static_cast<size_t>(c)] * channels, channels, out + c * channels);
  }

  // Sums of weighted neighbours as elements.
  template <typename T>
  void finish(const double* sums, T* out, int64_t n) const {
    const auto each = [&](const auto& element) {
      for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(element(sums[i]));
    };
    const auto whole_number = [](double sum) { return (static_cast<int64_t>(sum) + (1 << 27)) >> 28; };
    if constexpr (std::is_same_v<T, float>) {
      cpu::round_halves(sums, out, n);
    } else if constexpr (!std::is_integral_v<T>) {
      each([&](double sum) { return y.encode<T>(sum); });
    } else if (!whole) {
      const double offset = static_cast<double>(y.offset), min = static_cast<double>(y.limits.min),
                   max = static_cast<double>(y.limits.max);
      each([&](double sum) { return std::clamp(std::floor(sum * ratio + 0.5) - offset, min, max); });
    } else if (!qnn::is_fixed(y.dtype)) {
      each(whole_number);
    } else if (const Limits in = x.limits; recode.same) {
      each([&](double sum) { return std::clamp(whole_number(sum), in.min, in.max); });
    } else {
      each([&](double sum) { return recode(std::clamp(whole_number(sum), in.min, in.max), false); });
    }
  }
  template <typename T>
  void lines(const Run& run, int64_t begin, int64_t end) const;
  void run(const Run& run) const {
    with_type(y.dtype, [&](auto t) {
      using T = decltype(t);
      // Lines share what they take of the input.
      const int64_t grain = std::max<int64_t>(16, 16384 / std::max<int64_t>(1, width * channels));
      run.pool.for_ranges(batch * height, grain, [&](int64_t begin, int64_t end) {
        if (!moves()) return lines<T>(run, begin, end);
        for (int64_t line = begin; line < end; ++line)
          nearest(run.in<T>(0) + line / height * in_height * in_width * channels,
                  run.out<T>() + line * width * channels, line % height);
      });
    });
  }
};

// Some columns of the output. What they take of a row of the input is gathered once for all rows of the
// output that need it.
class Stretch {
 public:
  Stretch(const Resize& resize, int64_t first, int64_t columns) : r_(resize), first_(first), n_(columns) {
    const auto taps = static_cast<size_t>(r_.columns.count), numbers = static_cast<size_t>(n_ * r_.channels);
    weights_.assign(taps, std::vector<double>(numbers));
    for (size_t t = 0; t < taps; ++t)
      for (size_t i = 0; i < numbers; ++i) {
        const size_t at = column(i / static_cast<size_t>(r_.channels)) + t;
        weights_[t][i] = r_.whole ? static_cast<double>(r_.columns.fixed[at]) : r_.columns.weights[at];
      }
    for (const auto& w : weights_) columns_.push_back(w.data());
    kept_.resize(static_cast<size_t>(r_.rows.count) + 1);
    sums_.resize(numbers);
  }

  // The sums of line `row` of the output of an image.
  template <typename T>
  std::span<const double> line(const T* image, int64_t row) {
    const size_t at = static_cast<size_t>(row) * static_cast<size_t>(r_.rows.count);
    x_.clear();
    row_weights_.clear();
    for (size_t i = 0; i < static_cast<size_t>(r_.rows.count); ++i) {
      const Kept& source = gathered(image, r_.rows.at[at + i], at);
      for (const auto& tap : source.taps) x_.push_back(tap.data());
      row_weights_.push_back(r_.whole ? static_cast<double>(r_.rows.fixed[at + i]) : r_.rows.weights[at + i]);
    }
    const auto n = static_cast<int64_t>(sums_.size());
    if (r_.doubles)
      cpu::blend_own_row(x_[0], x_[1], &row_weights_[1], 0, sums_.data(), n);
    else
      cpu::blend_row({x_, columns_, row_weights_}, sums_.data(), n);
    return sums_;
  }

 private:
  struct Kept {
    const void* image = nullptr;
    int64_t row = -1;
    std::vector<std::vector<double>> taps;  // what each tap of the columns sees; of doubles their blend
  };
  size_t column(size_t i) const {
    return (static_cast<size_t>(first_) + i) * static_cast<size_t>(r_.columns.count);
  }
  // A row of the input, in the place of one that line `at` does not need.
  template <typename T>
  const Kept& gathered(const T* image, int64_t row, size_t at) {
    Kept* free = nullptr;
    for (Kept& k : kept_) {
      if (k.image == image && k.row == row) return k;
      const auto* needed = &r_.rows.at[at];
      if (k.image != image || std::find(needed, needed + r_.rows.count, k.row) == needed + r_.rows.count)
        free = &k;
    }
    free->image = image, free->row = row;
    const auto taps = static_cast<size_t>(r_.columns.count);
    free->taps.resize(taps);
    for (size_t t = 0; t < taps; ++t) {
      free->taps[t].resize(sums_.size());
      double* to = free->taps[t].data();
      for (int64_t c = 0; c < n_; ++c) {
        const T* from =
            image + (row * r_.in_width + r_.columns.at[column(static_cast<size_t>(c)) + t]) * r_.channels;
        for (int64_t k = 0; k < r_.channels; ++k) *to++ = number(from[k]);
      }
    }
    if (r_.doubles) {
      double* first = free->taps[0].data();
      cpu::blend_own_row(first, free->taps[1].data(), columns_[1], 1, first,
                         static_cast<int64_t>(sums_.size()));
      free->taps.resize(1);
    }
    return *free;
  }
  template <typename T>
  double number(T q) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<double>(r_.whole ? static_cast<int64_t>(q) : static_cast<int64_t>(q) + r_.x.offset);
    else
      return static_cast<double>(static_cast<float>(q));
  }

  const Resize& r_;
  int64_t first_, n_;
  std::vector<std::vector<double>> weights_;
  std::vector<const double*> columns_, x_;
  std::vector<double> row_weights_, sums_;
  std::vector<Kept> kept_;
};

template <typename T>
void Resize::lines(const Run& run, int64_t begin, int64_t end) const {
  constexpr int64_t kNumbers = 2048;  // of a stretch: what is gathered stays in the cache
  const int64_t step = std::max<int64_t>(1, kNumbers / channels);
  for (int64_t first = 0; first < width; first += step) {
    Stretch stretch(*this, first, std::min(step, width - first));
    for (int64_t line = begin; line < end; ++line) {
      const T* image = run.in<T>(0) + line / height * in_height * in_width * channels;
      const std::span<const double> sums = stretch.line(image, line % height);
      finish(sums.data(), run.out<T>() + (line * width + first) * channels,
             static_cast<int64_t>(sums.size()));
    }
  }
}

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
  const bool doubles = op.in(0).is_float() && rule.mode == Mode::linear &&
                       rule.places == Places::half_pixel && y.dims[1] == 2 * x.dims[1] &&
                       y.dims[2] == 2 * x.dims[2];
  return prepare.step(Resize{.rows = taps_of(rule, x.dims[1], y.dims[1]),
                             .columns = taps_of(rule, x.dims[2], y.dims[2]),
                             .batch = x.dims[0],
                             .in_height = x.dims[1],
                             .in_width = x.dims[2],
                             .height = y.dims[1],
                             .width = y.dims[2],
                             .channels = x.dims[3],
                             .doubles = doubles,
                             .whole = !x.is_float() && !(rule.mode == Mode::cubic && qnn::is_fixed(x.dtype)),
                             .x = from,
                             .y = to,
                             .ratio = from.scale == to.scale ? 1.0 : from.scale / to.scale,
                             .recode = Recode::between(x, y, true)});
}

}  // namespace sixfold::emulator
