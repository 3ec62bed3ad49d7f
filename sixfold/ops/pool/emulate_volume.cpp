// Pools of volumes [N, D, H, W, C] on the emulator. An average is an exact sum, scaled once; the largest is
// the largest integer, brought to the output's encoding. Padding counts as zero in an average, not at all for
// the largest.
#include <cmath>

#include "sixfold/emulator/elements.h"
#include "sixfold/emulator/kernel.h"

namespace sixfold::emulator {
namespace {

struct VolumePool {
  std::array<int64_t, 3> in, out, window, stride, pad;
  int64_t batch, channels;
  bool average, count_padding;
  Codec x, y;

  template <typename T>
  void run_as(const Run& run) const {
    const int64_t pixels = batch * out[0] * out[1] * out[2];
    run.pool.for_ranges(pixels, 16, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        const int64_t at[] = {o / out[2] / out[1] % out[0], o / out[2] % out[1], o % out[2]};
        int64_t from[3], to[3], inside = 1;
        for (size_t a = 0; a < 3; ++a) {
          const int64_t first = at[a] * stride[a] - pad[a];
          from[a] = std::max<int64_t>(first, 0);
          to[a] = std::min(first + window[a], in[a]);
          inside *= std::max<int64_t>(to[a] - from[a], 0);
        }
        const int64_t whole = window[0] * window[1] * window[2];
        const auto count = static_cast<double>(count_padding ? whole : std::max<int64_t>(inside, 1));
        const T* image = run.in<T>(0) + o / (out[0] * out[1] * out[2]) * in[0] * in[1] * in[2] * channels;
        for (int64_t c = 0; c < channels; ++c) {
          double sum = 0, largest = -HUGE_VAL;
          for (int64_t i = from[0]; i < to[0]; ++i)
            for (int64_t j = from[1]; j < to[1]; ++j)
              for (int64_t k = from[2]; k < to[2]; ++k) {
                const double v = x.decode(image[((i * in[1] + j) * in[2] + k) * channels + c]) / x.scale;
                sum += v;
                largest = std::max(largest, v);
              }
          const double steps = (average ? sum / count : largest) * x.scale;
          run.out<T>()[o * channels + c] = y.encode_ieee<T>(steps);
        }
      }
    });
  }
  void run(const Run& run) const {
    with_type(x.dtype, [&](auto t) { run_as<decltype(t)>(run); });
  }
};

Result<VolumePool> read_pool(const OpView& op) {
  const TensorDef &x = op.in(0), &y = op.out();
  for (const TensorDef* t : {&x, &y})
    if (t->rank() != 5 || t->count() == 0)
      return unsupported("a tensor has dims ", t->dims, ", expected five");
  if (x.dtype != y.dtype)
    return unsupported("in[0] is ", qnn::to_text(x.dtype), ", out[0] ", qnn::to_text(y.dtype));
  if (x.dims[0] != y.dims[0] || x.dims[4] != y.dims[4])
    return unsupported("in[0] has dims ", x.dims, ", out[0] ", y.dims);
  const auto window = op.words("filter_size"), stride = op.words("stride"), pads = op.words("pad_amount");
  if (window.size() != 3 || (!stride.empty() && stride.size() != 3) || (!pads.empty() && pads.size() != 6))
    return unsupported("filter_size has ", window.size(), " numbers, stride ", stride.size(), ", pad_amount ",
                       pads.size());
  VolumePool p{};
  p.batch = x.dims[0], p.channels = x.dims[4];
  p.average = op.type == "PoolAvg3d";
  p.count_padding = op.boolean("count_pad_for_edges", false);
  p.x = Codec::of(x), p.y = Codec::of(y);
  const uint32_t up = op.u32("rounding_mode", 0);
  for (size_t a = 0; a < 3; ++a) {
    p.in[a] = x.dims[a + 1], p.out[a] = y.dims[a + 1], p.window[a] = window[a];
    p.stride[a] = stride.empty() ? 1 : stride[a], p.pad[a] = pads.empty() ? 0 : pads[2 * a];
    const int64_t after = pads.empty() ? 0 : pads[2 * a + 1], room = p.in[a] + p.pad[a] + after - p.window[a];
    if (p.window[a] < 1 || p.stride[a] < 1 || room < 0 || p.pad[a] > 1 << 24 || after > 1 << 24)
      return unsupported("axis ", a + 1, " has a window of ", p.window[a], " by ", p.stride[a], " in ",
                         p.in[a]);
    const int64_t want = (room + (up == 1 ? p.stride[a] - 1 : 0)) / p.stride[a] + 1;
    if (want != p.out[a])
      return unsupported("out[0] has ", p.out[a], " along axis ", a + 1, ", expected ", want);
  }
  return p;
}

}  // namespace

Status check_volume_pool(const OpView& op, const DeviceModel&) {
  SF_TRY(read_pool(op));
  return {};
}

Result<Step> prepare_volume_pool(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  SF_ASSIGN(const VolumePool p, read_pool(op));
  return prepare.step(p);
}

}  // namespace sixfold::emulator
