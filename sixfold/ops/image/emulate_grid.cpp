// GridSample on the emulator: images [N, H, W, C] and volumes [N, D, H, W, C] at places that are data.
//
// A place (x, y) or (x, y, z), the last axis first, becomes on each axis an index and the fraction that the
// next index has. Neighbours are blended along x, then y, then z. With 16 bits a fraction has 16 bits, at
// most 65535, and each blend is rounded; floats have fractions that are halves and exact blends, rounded
// once; with 8 bits all is real.
#include <array>
#include <cmath>

#include "sixfold/emulator/elements.h"
#include "sixfold/emulator/kernel.h"

namespace sixfold::emulator {
namespace {

enum class Padding : uint8_t { zeros, border, reflection };

struct Place {
  int64_t index = -2;  // -1: the fraction is of element 0; -2: all of it lies outside
  double fraction = 0;
};

struct RealAxis {
  double extent;
  bool align;
  Padding padding;
  bool halves;  // fractions are

  Place operator()(double v, bool nearest) const {
    v = align ? (v + 1) / 2 * (extent - 1) : ((v + 1) * extent - 1) / 2;
    if (padding == Padding::reflection) {
      const double low = align ? 0 : -0.5, span = align ? extent - 1 : extent;
      double d = span > 0 ? std::fmod(std::abs(v - low), 2 * span) : -low;
      if (d > span && span > 0) d = 2 * span - d;
      v = d + low;
    }
    if (padding != Padding::zeros) v = std::clamp(v, 0.0, extent - 1);
    if (nearest) v = std::nearbyint(v);
    if (!(v > -1 && v < extent)) return {};  // nor what is no number
    const double low = std::floor(v);
    return {static_cast<int64_t>(low),
            halves ? static_cast<double>(to_half(static_cast<float>(v - low))) : v - low};
  }
};

// 16 bits: 2^-16 of a pixel, from a multiplier of 2^-15 of that. Reflected places are 2^-15 of [-1, 1] first.
struct FixedAxis {
  int64_t extent, multiplier = 0, zero = 0;
  bool align;
  Padding padding;

  int64_t span() const { return align ? extent - 1 : extent; }
  static int64_t nearest_of(float x) { return static_cast<int64_t>(std::round(x)); }

  static FixedAxis of(const Codec& grid, int64_t extent, bool align, Padding padding) {
    FixedAxis axis{.extent = extent, .align = align, .padding = padding};
    const bool reflects = padding == Padding::reflection;
    const double steps = grid.scale * (reflects ? 1.0 : static_cast<double>(axis.span()));
    axis.multiplier = std::llround(std::min(std::ldexp(steps, 30), 70368744177664.0));
    // The zero point's part is a float. Of a reflected place it is rounded with the middle of the first
    // pixel.
    const float part = static_cast<float>(grid.offset) * (static_cast<float>(axis.multiplier) / 32768.0f);
    const float middle = !reflects || align ? 0.0f : 32768.0f * (1.0f - 1.0f / static_cast<float>(extent));
    axis.zero = nearest_of(part + middle) - nearest_of(middle);
    return axis;
  }
  int64_t operator()(int64_t q) const {  // the place in 2^-16
    constexpr int64_t one = 1 << 15;
    int64_t at = ((q * multiplier + (1 << 14)) >> 15) + zero;
    if (padding == Padding::reflection) {
      at = (at + one) % (4 * one);
      if (at < 0) at += 4 * one;
      at = (at > 2 * one ? 4 * one - at : at) - one;
      at *= span();
    }
    at += (extent - 1) * one;
    return padding == Padding::zeros ? at : std::clamp<int64_t>(at, 0, (extent - 1) << 16);
  }
};

struct GridSample {
  std::vector<int64_t> extents;  // of the input's two or three axes
  int64_t batch, places, channels;
  bool align, nearest;
  Padding padding;
  Codec x, grid, y;
  std::vector<FixedAxis> fixed;  // of 16 bits
  Recode recode;

  // Corners of a place: bit 0 of the number is along x. -1: outside.
  using Corners = std::array<int64_t, 8>;
  Corners corners(std::span<const Place> where) const {
    Corners out;
    const size_t axes = extents.size();
    for (size_t corner = 0; corner < 1u << axes; ++corner) {
      int64_t at = 0;
      bool inside = true;
      for (size_t a = 0; a < axes; ++a) {
        const size_t place = axes - 1 - a;
        const int64_t i = where[place].index + static_cast<int64_t>(corner >> place & 1);
        inside = inside && i >= 0 && i < extents[a];
        at = at * extents[a] + i;
      }
      out[corner] = inside ? at * channels : -1;
    }
    return out;
  }
  template <typename V, typename Blend>
  V blended(std::array<V, 8> v, Blend blend) const {
    for (size_t a = 0, count = size_t{1} << extents.size(); count > 1; ++a, count /= 2)
      for (size_t i = 0; i < count; i += 2) v[i / 2] = blend(a, v[i], v[i + 1]);
    return v[0];
  }

  template <typename T>
  void real(const T* image, T* out, std::span<const Place> where) const {
    const Corners at = corners(where);
    for (int64_t k = 0; k < channels; ++k) {
      std::array<double, 8> v{};
      for (size_t i = 0; i < size_t{1} << extents.size(); ++i)
        v[i] = at[i] < 0 ? 0.0 : x.decode(image[at[i] + k]);
      const auto blend = [&](size_t a, double p, double q) {
        const double f = where[a].fraction;
        return f == 0 ? p : (1 - f) * p + f * q;
      };
      out[k] = y.encode<T>(blended(v, blend));
    }
  }
  // place: of the first element in its tensor
  void wide(const uint16_t* image, uint16_t* out, std::span<const Place> where, int64_t place) const {
    const Corners at = corners(where);
    for (int64_t k = 0; k < channels; ++k) {
      std::array<int64_t, 8> v{};
      for (size_t i = 0; i < size_t{1} << extents.size(); ++i)
        v[i] = at[i] < 0 ? -x.offset : image[at[i] + k];
      const auto blend = [&](size_t a, int64_t p, int64_t q) {
        const auto f = static_cast<int64_t>(where[a].fraction);
        return nearest ? p : (std::min<int64_t>(65536 - f, 65535) * p + f * q + 32768) >> 16;
      };
      const int64_t q = blended(v, blend);
      out[k] = static_cast<uint16_t>(recode.same ? q : recode(q, (place + k) % 2 != 0));
    }
  }
  void run(const Run& run) const {
    const size_t axes = extents.size();
    int64_t volume = channels;
    for (const int64_t e : extents) volume *= e;
    const auto each = [&](auto body) {
      run.pool.for_ranges(batch * places, 256, [&](int64_t begin, int64_t end) {
        for (int64_t o = begin; o < end; ++o) body(o, o / places * volume);
      });
    };
    if (!fixed.empty()) {
      each([&](int64_t o, int64_t image) {
        std::array<Place, 3> where;
        for (size_t a = 0; a < axes; ++a) {
          const int64_t at = fixed[a](run.in<uint16_t>(1)[static_cast<size_t>(o) * axes + a]);
          where[a] = nearest ? Place{(at + 32768) >> 16} : Place{at >> 16, static_cast<double>(at & 65535)};
        }
        wide(run.in<uint16_t>(0) + image, run.out<uint16_t>() + o * channels, std::span(where).first(axes),
             o * channels);
      });
      return;
    }
    with_type(x.dtype, [&](auto t) {
      using T = decltype(t);
      each([&](int64_t o, int64_t image) {
        std::array<double, 3> v;
        grid.read(run.ins[1], o * static_cast<int64_t>(axes), 1, std::span(v).first(axes));
        std::array<Place, 3> where;
        for (size_t a = 0; a < axes; ++a)
          where[a] = RealAxis{static_cast<double>(extents[axes - 1 - a]), align, padding,
                              !qnn::is_fixed(x.dtype)}(v[a], nearest);
        real(run.in<T>(0) + image, run.out<T>() + o * channels, std::span(where).first(axes));
      });
    });
  }
};

}  // namespace

Status check_grid_sample(const OpView& op, const DeviceModel&) {
  const TensorDef &x = op.in(0), &g = op.in(1), &y = op.out();
  if (x.dtype != y.dtype)
    return unsupported("in[0] is ", qnn::to_text(x.dtype), ", out[0] ", qnn::to_text(y.dtype));
  const size_t rank = x.rank();
  bool fits = (rank == 4 || rank == 5) && g.rank() == rank && y.rank() == rank && x.count() > 0;
  fits = fits && g.dims[0] == x.dims[0] && y.dims[0] == x.dims[0] && g.dims.back() == rank - 2 &&
         y.dims.back() == x.dims.back();
  for (size_t d = 1; fits && d + 1 < rank; ++d) fits = y.dims[d] == g.dims[d];
  if (!fits) return unsupported("in[0] has dims ", x.dims, ", in[1] ", g.dims, ", out[0] ", y.dims);
  if (op.u32("mode", 0) > 1 || op.u32("padding_mode", 0) > 2)
    return unsupported("mode is ", op.u32("mode", 0), ", padding_mode ", op.u32("padding_mode", 0));
  return {};
}

Result<Step> prepare_grid_sample(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  const TensorDef &x = op.in(0), &y = op.out();
  GridSample step{.extents = {x.dims.begin() + 1, x.dims.end() - 1},
                  .batch = x.dims[0],
                  .places = y.count() / x.dims[0] / x.dims.back(),
                  .channels = x.dims.back(),
                  .align = op.boolean("align_corners", false),
                  .nearest = op.u32("mode", 0) == 1,
                  .padding = static_cast<Padding>(op.u32("padding_mode", 0)),
                  .x = Codec::of(x),
                  .grid = Codec::of(op.in(1)),
                  .y = Codec::of(y),
                  .fixed = {},
                  .recode = Recode::between(x, y)};
  if (x.dtype == DataType::ufixed16 && op.in(1).dtype == DataType::ufixed16)
    for (size_t a = step.extents.size(); a-- > 0;)
      step.fixed.push_back(FixedAxis::of(step.grid, step.extents[a], step.align, step.padding));
  return prepare.step(std::move(step));
}

}  // namespace sixfold::emulator
