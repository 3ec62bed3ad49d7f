// OneHot on the emulator.
#include <cstring>

#include "sixfold/emulator/elements.h"
#include "sixfold/emulator/kernel.h"
#include "sixfold/emulator/layout.h"

namespace sixfold::emulator {
namespace {

// Both values as elements of the output. An index that is none of the depth's leaves all off.
struct OneHot {
  int64_t before, depth, after;
  size_t size;
  uint64_t on, off;

  void run(const Run& run) const {
    run.pool.for_ranges(
        before, std::max<int64_t>(1, 16384 / (depth * after)), [&](int64_t begin, int64_t end) {
          for (int64_t b = begin; b < end; ++b)
            for (int64_t d = 0; d < depth; ++d)
              for (int64_t a = 0; a < after; ++a) {
                const bool hot = run.in<int32_t>(0)[b * after + a] == d;
                std::memcpy(run.outs[0] + static_cast<size_t>((b * depth + d) * after + a) * size,
                            hot ? &on : &off, size);
              }
        });
  }
};

}  // namespace

Result<Step> prepare_one_hot(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  const AroundAxis around(op.out().dims, op.u32("axis", 0));
  OneHot step{around.before, around.extent, around.after, qnn::size_of(op.out().dtype), 0, 0};
  // On grids the values are elements already, 1 and 0 when they are not given, whatever the encoding.
  if (op.out().is_float()) {
    with_type(op.out().dtype, [&](auto t) {
      const Codec codec = Codec::of(op.out());
      const auto on = codec.encode<decltype(t)>(static_cast<double>(op.f32("on_value", 1))),
                 off = codec.encode<decltype(t)>(static_cast<double>(op.f32("off_value", 0)));
      std::memcpy(&step.on, &on, sizeof on);
      std::memcpy(&step.off, &off, sizeof off);
    });
  } else {
    step.on = op.u32("on_value", 1);
    step.off = op.u32("off_value", 0);
  }
  return prepare.step(step);
}

}  // namespace sixfold::emulator
