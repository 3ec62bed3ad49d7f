// HadamardTransform on the emulator: rows of the last axis times Sylvester's matrix, over the root of its
// size and times `scale`. Sums are exact integers, scaled and rounded once.
#include <bit>
#include <cmath>

#include "sixfold/emulator/elements.h"
#include "sixfold/emulator/kernel.h"

namespace sixfold::emulator {
namespace {

struct Hadamard {
  int64_t rows, n;
  Codec x, y;
  double factor;  // steps of the output for a step of the sum

  template <typename T>
  void row(const T* in, int64_t* sums, T* out) const {
    for (int64_t i = 0; i < n; ++i) sums[i] = static_cast<int64_t>(in[i]) + x.offset;
    for (int64_t half = 1; half < n; half *= 2)
      for (int64_t first = 0; first < n; first += 2 * half)
        for (int64_t i = first; i < first + half; ++i) {
          const int64_t a = sums[i], b = sums[i + half];
          sums[i] = a + b, sums[i + half] = a - b;
        }
    for (int64_t i = 0; i < n; ++i) {
      const double q =
          std::floor(static_cast<double>(sums[i]) * factor + 0.5) - static_cast<double>(y.offset);
      out[i] =
          static_cast<T>(std::clamp(q, static_cast<double>(y.limits.min), static_cast<double>(y.limits.max)));
    }
  }
  void run(const Run& run) const {
    auto* sums = reinterpret_cast<int64_t*>(run.scratch);
    for (int64_t r = 0; r < rows; ++r) row(run.in<uint16_t>(0) + r * n, sums, run.out<uint16_t>() + r * n);
  }
};

}  // namespace

Status check_hadamard(const OpView& op, const DeviceModel&) {
  const TensorDef& x = op.in(0);
  if (x.rank() == 0 || x.count() == 0 || !std::has_single_bit(x.dims.back()))
    return unsupported("in[0] has dims ", x.dims, ", expected a last one that is a power of two");
  return {};
}

Result<Step> prepare_hadamard(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  const TensorDef& x = op.in(0);
  const int64_t n = x.dims.back();
  const Codec from = Codec::of(x), to = Codec::of(op.out());
  const double scale = static_cast<double>(op.f32("scale", 1.0f)) / std::sqrt(static_cast<double>(n));
  prepare.need_scratch(static_cast<size_t>(n) * sizeof(int64_t));
  return prepare.step(Hadamard{x.count() / n, n, from, to, from.scale * scale / to.scale},
                      static_cast<uint64_t>(x.count()));
}

}  // namespace sixfold::emulator
