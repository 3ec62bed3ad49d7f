// Blocks of pixels to batches and back, and channels that change places, on the emulator.
#include <cstring>

#include "sixfold/emulator/elements.h"
#include "sixfold/emulator/kernel.h"
#include "sixfold/emulator/layout.h"

namespace sixfold::emulator {
namespace {

// Runs of elements from elsewhere: where() says from which run of the input, -1 for the constant.
template <typename Where>
struct Runs {
  Where where;
  int64_t rows, width;
  DataType dtype;
  uint64_t constant;
  Recode recode;

  void run(const Run& run) const {
    const size_t size = qnn::size_of(dtype), bytes = static_cast<size_t>(width) * size;
    run.pool.for_ranges(rows, std::max<int64_t>(1, 16384 / width), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        std::byte* const to = run.outs[0] + static_cast<size_t>(r) * bytes;
        if (const int64_t at = where(r); at >= 0) {
          std::memcpy(to, run.ins[0] + static_cast<size_t>(at) * bytes, bytes);
          recode.apply(dtype, run.outs[0], r * width, width);
        } else {
          for (size_t i = 0; i < bytes; i += size) std::memcpy(to + i, &constant, size);
        }
      }
    });
  }
};

// Batch b of the many is place (b / batches / block width, b / batches % block width) in each block.
struct BatchPlaces {
  bool to_batch;
  int64_t block_height, block_width, above, left;
  int64_t batches, height, width;            // of the wide side
  int64_t many_height, many_width;           // of the many batches
  int64_t operator()(int64_t pixel) const {  // of the output
    if (to_batch) {
      const int64_t w = pixel % many_width, h = pixel / many_width % many_height,
                    n = pixel / many_width / many_height, place = n / batches,
                    row = h * block_height + place / block_width - above,
                    column = w * block_width + place % block_width - left;
      const bool inside = row >= 0 && row < height && column >= 0 && column < width;
      return inside ? (n % batches * height + row) * width + column : -1;
    }
    const int64_t column = pixel % width + left, row = pixel / width % height + above,
                  n = pixel / width / height, place = row % block_height * block_width + column % block_width;
    return ((place * batches + n) * many_height + row / block_height) * many_width + column / block_width;
  }
};

// Channel j of group g becomes channel g of group j.
struct ShuffledPlaces {
  int64_t channels, groups;
  int64_t operator()(int64_t run) const {
    const int64_t c = run % channels;
    return run - c + c % groups * (channels / groups) + c / groups;
  }
};

uint64_t zero_of(const TensorDef& t) {
  uint64_t bits = 0;
  with_type(t.dtype, [&](auto type) {
    const auto zero = Codec::of(t).encode<decltype(type)>(0);
    std::memcpy(&bits, &zero, sizeof zero);
  });
  return bits;
}

}  // namespace

Result<Step> prepare_batch(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  const bool to_batch = op.type == "SpaceToBatch";
  const TensorDef &x = op.in(0), &y = op.out();
  const std::vector<uint32_t>&wide = (to_batch ? x : y).dims, &many = (to_batch ? y : x).dims;
  const std::span<const uint32_t> block = op.words("block_size"),
                                  edge = op.words(to_batch ? "pad_amount" : "crops");
  const BatchPlaces places{
      to_batch, block[0], block[1], edge.empty() ? 0 : edge[0], edge.empty() ? 0 : edge[2], wide[0], wide[1],
      wide[2],  many[1],  many[2]};
  return prepare.step(Runs<BatchPlaces>{places, y.count() / y.dims[3], y.dims[3], y.dtype, zero_of(y),
                                        Recode::between(x, y)});
}

Result<Step> prepare_shuffle(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  const TensorDef &x = op.in(0), &y = op.out();
  const AroundAxis around(x.dims, op.u32("axis", static_cast<uint32_t>(x.rank() - 1)));
  return prepare.step(Runs<ShuffledPlaces>{{around.extent, op.u32("num_groups", 1)},
                                           around.before * around.extent,
                                           around.after,
                                           y.dtype,
                                           0,
                                           Recode::between(x, y)});
}

}  // namespace sixfold::emulator
