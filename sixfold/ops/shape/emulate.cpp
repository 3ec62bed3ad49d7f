// Ops that move elements, on the emulator. Encodings of input and output are the same, or the rule of the op
// says otherwise: bytes are copied.
#include <cstring>

#include "sixfold/cpu/copy.h"
#include "sixfold/emulator/kernel.h"
#include "sixfold/emulator/layout.h"

namespace sixfold::emulator {
namespace {

struct Copy {
  size_t bytes;
  void run(const Run& run) const {
    constexpr int64_t kGrain = 1 << 20;
    run.pool.for_ranges(static_cast<int64_t>(bytes), kGrain, [&](int64_t begin, int64_t end) {
      std::memcpy(run.out<std::byte>() + begin, run.in<std::byte>(0) + begin,
                  static_cast<size_t>(end - begin));
    });
  }
};

// Elements of `size` bytes from strides to row-major.
struct Permute {
  cpu::BroadcastLoop<2> loop;
  size_t size;

  template <typename T>
  void run_as(const Run& run) const {
    const T* x = run.in<T>(0);
    T* y = run.out<T>();
    const int64_t step = loop.stride(1);
    loop.run(run.pool, cpu::kElementwiseGrain, [&](const auto& at, size_t n) {
      if (step == 1) {
        std::memcpy(y + at[0], x + at[1], n * sizeof(T));
        return;
      }
      for (size_t i = 0; i < n; ++i)
        y[at[0] + static_cast<int64_t>(i)] = x[at[1] + static_cast<int64_t>(i) * step];
    });
  }
  void run(const Run& run) const {
    if (size == 1) return run_as<uint8_t>(run);
    if (size == 2) return run_as<uint16_t>(run);
    if (size == 4) return run_as<uint32_t>(run);
    return run_as<uint64_t>(run);
  }
};

}  // namespace

Status check_reshape(const OpView& op, const DeviceModel&) {
  if (op.in(0).count() != op.out().count())
    return unsupported("in[0] has ", op.in(0).count(), " elements, out[0] ", op.out().count());
  return {};
}

Result<Step> prepare_reshape(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  Step step = prepare.step(Copy{op.in(0).size_bytes()});
  step.copies = true;
  return step;
}

Status check_transpose(const OpView& op, const DeviceModel&) {
  const TensorDef &x = op.in(0), &y = op.out();
  const std::span<const uint32_t> perm = op.words("perm");
  if (!op.find("perm")) return unsupported("parameter perm is missing");
  if (perm.size() != x.rank() || y.rank() != x.rank())
    return unsupported("perm has ", perm.size(), " axes, in[0] has ", x.rank(), ", out[0] ", y.rank());
  uint32_t seen = 0;
  for (size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] >= x.rank() || (seen >> perm[i] & 1) != 0)
      return unsupported("perm has axis ", perm[i], " at ", i, ", which is no permutation of ", x.rank());
    seen |= 1u << perm[i];
    if (y.dims[i] != x.dims[perm[i]])
      return unsupported("out[0] has ", y.dims[i], " along axis ", i, ", in[0] has ", x.dims[perm[i]],
                         " along ", perm[i]);
  }
  return {};
}

Result<Step> prepare_transpose(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  const std::span<const uint32_t> perm = op.words("perm");
  const cpu::TensorDesc x = describe(op.in(0)), y = describe(op.out());
  cpu::TensorDesc moved = y;
  for (size_t i = 0; i < perm.size(); ++i) moved.strides[i] = x.strides[perm[i]];
  return prepare.step(Permute{cpu::BroadcastLoop<2>({&y, &moved}), qnn::size_of(op.in(0).dtype)});
}

}  // namespace sixfold::emulator
