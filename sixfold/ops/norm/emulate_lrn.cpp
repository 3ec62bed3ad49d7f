// Local response normalization on the emulator: x / (bias + alpha * sum of squares around it) ^ beta. On a
// grid the result is cut towards zero.
#include <cmath>

#include "sixfold/emulator/elements.h"
#include "sixfold/emulator/kernel.h"

namespace sixfold::emulator {
namespace {

struct Lrn {
  int64_t batch, height, width, channels, radius;
  bool within;  // a square of pixels of one channel, or neighbouring channels of one pixel
  double alpha, beta, bias;
  Codec from, to;

  void run(const Run& run) const {
    const int64_t row = width * channels;
    run.pool.for_ranges(batch * height, std::max<int64_t>(1, 4096 / row), [&](int64_t begin, int64_t end) {
      std::vector<double> lines, out(static_cast<size_t>(row));
      for (int64_t r = begin; r < end; ++r) {
        const int64_t h = r % height, reach = within ? radius : 0;
        const int64_t first = std::max<int64_t>(0, h - reach), last = std::min(height - 1, h + reach);
        lines.resize(static_cast<size_t>((last - first + 1) * row));
        from.read(run.ins[0], (r - h + first) * row, 1, lines);
        for (int64_t i = 0; i < row; ++i) {
          const double x = lines[static_cast<size_t>((h - first) * row + i)];
          const double y = x * std::pow(bias + alpha * squares(lines, row, h - first, i), -beta);
          out[static_cast<size_t>(i)] =
              qnn::is_fixed(to.dtype) && !within ? std::trunc(y / to.scale) * to.scale : y;
        }
        to.write(out, run.outs[0], r * row, 1);
      }
    });
  }

 private:
  double squares(const std::vector<double>& lines, int64_t row, int64_t line, int64_t i) const {
    double sum = 0;
    const auto add = [&](int64_t at) {
      sum += lines[static_cast<size_t>(at)] * lines[static_cast<size_t>(at)];
    };
    const int64_t c = i % channels, w = i / channels;
    if (!within) {
      for (int64_t d = std::max<int64_t>(0, c - radius); d <= std::min(channels - 1, c + radius); ++d)
        add(line * row + i - c + d);
      return sum;
    }
    for (int64_t l = 0; l * row < static_cast<int64_t>(lines.size()); ++l)
      for (int64_t v = std::max<int64_t>(0, w - radius); v <= std::min(width - 1, w + radius); ++v)
        add(l * row + v * channels + c);
    return sum;
  }
};

}  // namespace

Result<Step> prepare_lrn(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  const TensorDef& x = op.in(0);
  return prepare.step(Lrn{x.dims[0], x.dims[1], x.dims[2], x.dims[3], op.i32("radius", 0),
                          op.u32("region", 0) == 1, static_cast<double>(op.f32("alpha", 1)),
                          static_cast<double>(op.f32("beta", 0.5f)), static_cast<double>(op.f32("bias", 1)),
                          Codec::of(x), Codec::of(op.out())});
}

}  // namespace sixfold::emulator
