// Padding. The interior is copied once; the border is written in strips, axis by axis, so that no element is
// written twice: strip i spans the whole output along the axes before i and the interior along those after
// it. Constant strips hold the value, others copy what the output holds already.
#include <vector>

#include "sixfold/cpu/copy.h"
#include "sixfold/cpu/kernel.h"
#include "sixfold/ops/shape/number.h"

namespace sixfold::cpu {

KernelResult pad(const KernelCall& call) {
  const TensorDesc &x = call.in[0], &y = call.out[0];
  const size_t size = size_of(x.dtype);
  const Shape before = call.attrs.ints("before"), after = call.attrs.ints("after");
  const std::string& mode = call.attrs.text("mode");

  int64_t origin = 0;  // of the interior, in y
  for (size_t i = 0; i < x.rank(); ++i) origin += before[i] * y.strides[i];
  SF_ASSIGN(const StridedCopy interior, StridedCopy::make(size, x.shape, x.strides, y.strides, 0, origin));

  std::vector<StridedCopy> strips;
  Shape region =
      x.shape;  // what is written so far: the output along earlier axes, the interior along later ones
  int64_t base = origin;  // where that region starts in y
  for (size_t i = 0; i < x.rank(); ++i) {
    const int64_t step = y.strides[i], extent = x.shape[i];
    for (const bool front : {true, false}) {
      const int64_t count = front ? before[i] : after[i];
      if (count == 0) continue;
      Shape shape = region, src = y.strides;
      shape[i] = count;
      const int64_t dst_offset = front ? base - count * step : base + extent * step;
      int64_t src_offset = base;
      if (mode == "constant") {
        src.assign(src.size(), 0);
        src_offset = 0;
      } else if (mode == "replicate") {
        src[i] = 0;
        src_offset += front ? 0 : (extent - 1) * step;
      } else if (mode == "reflect") {
        src[i] = -step;
        src_offset += (front ? count : extent - 2) * step;
      } else {
        src_offset += front ? (extent - count) * step : 0;
      }
      SF_ASSIGN(StridedCopy strip, StridedCopy::make(size, shape, src, y.strides, src_offset, dst_offset));
      strips.push_back(std::move(strip));
    }
    region[i] = y.shape[i];
    base -= before[i] * step;
  }
  const bool constant = mode == "constant";
  const auto value = number_bytes(call.attrs.find("value"), x.dtype);
  return make_kernel([=, strips = std::move(strips)](const Buffers& b) {
    interior.run(b.pool, b.in[0], b.out[0]);
    for (const StridedCopy& strip : strips) strip.run(b.pool, constant ? value.data() : b.out[0], b.out[0]);
    return ok_status();
  });
}

}  // namespace sixfold::cpu
