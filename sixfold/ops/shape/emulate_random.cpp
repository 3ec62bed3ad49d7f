// Random numbers on the emulator. Which numbers the device draws nobody can know; ours are the same in every
// run.
#include "sixfold/cpu/random.h"
#include "sixfold/emulator/elements.h"
#include "sixfold/emulator/kernel.h"

namespace sixfold::emulator {
namespace {

struct Random {
  Codec codec;
  int64_t count;
  bool normal;
  double low, span;  // uniform in [low, low + span), or of the mean low and the deviation span
  uint64_t seed;

  void run(const Run& run) const {
    constexpr int64_t kGrain = 1 << 12;
    run.pool.for_ranges(count, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const uint64_t first = cpu::draw_bits(seed, 2 * static_cast<uint64_t>(i));
        const double unit =
            normal ? cpu::normal_of(first, cpu::draw_bits(seed, 2 * static_cast<uint64_t>(i) + 1))
                   : cpu::uniform_of(first);
        const double value = low + unit * span;
        codec.write({&value, 1}, run.out<std::byte>(), i, 1);
      }
    });
  }
};

}  // namespace

Result<Step> prepare_random(const OpView& op, Prepare& prepare) {
  const bool normal = op.type == "RandomNormalLike";
  const double low = static_cast<double>(op.f32(normal ? "mean" : "low", 0));
  const double high = static_cast<double>(op.f32(normal ? "scale" : "high", 1));
  return prepare.step(Random{Codec::of(op.out()), op.out().count(), normal, low, normal ? high : high - low,
                             static_cast<uint64_t>(op.out().count())});
}

}  // namespace sixfold::emulator
