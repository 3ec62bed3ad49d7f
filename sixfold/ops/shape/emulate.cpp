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

struct Permute {
  cpu::StridedCopy copy;
  void run(const Run& run) const { copy.run(run.pool, run.in<std::byte>(0), run.out<std::byte>()); }
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
  Shape strides;
  for (const uint32_t axis : perm) strides.push_back(x.strides[axis]);
  SF_ASSIGN(cpu::StridedCopy copy,
            cpu::StridedCopy::make(qnn::size_of(op.in(0).dtype), y.shape, strides, y.strides));
  return prepare.step(Permute{std::move(copy)});
}

}  // namespace sixfold::emulator
