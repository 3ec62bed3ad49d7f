#include "sixfold/cpu/kernel.h"

namespace sixfold::cpu {

bool is_row_major(const TensorDesc& t) {
  int64_t step = 1;
  for (size_t i = t.shape.size(); i-- > 0;) {
    if (t.shape[i] != 1 && t.strides[i] != step) return false;
    step *= t.shape[i];
  }
  return true;
}

Shape channels_last_strides(const Shape& shape) {
  Shape strides(shape.size());
  int64_t step = 1;
  strides[1] = step;
  step *= shape[1];
  for (size_t i = shape.size(); i-- > 2;) {
    strides[i] = step;
    step *= shape[i];
  }
  strides[0] = step;
  return strides;
}

bool is_channels_last(const TensorDesc& t) {
  if (t.rank() < 3 || t.rank() > 5) return false;
  const Shape expected = channels_last_strides(t.shape);
  for (size_t i = 0; i < t.rank(); ++i)
    if (t.shape[i] != 1 && t.strides[i] != expected[i]) return false;
  return true;
}

KernelResult make(const KernelCall& call) {
  using Maker = KernelResult (*)(const KernelCall&);
  static constexpr Maker kMakers[] = {
      nullptr,
#define OP(id, infer_fn, cpu_fn, layout, legal_fn) keeps(Op::id) ? cpu_fn : nullptr,
#include "sixfold/ops/aten.def"
#undef OP
  };
  if (call.op == Op::call) return Error(Code::Internal, "a call has no CPU kernel");
  Usage* usage = usage_of_this_thread();
  if (usage) usage->ops.insert(call.op);
  for (const auto list : {call.in, call.out}) {
    for (const TensorDesc& t : list) {
      if (usage) usage->dtypes.insert(t.dtype);
      if (!keeps(t.dtype)) return unsupported("this build has no kernels for ", t.dtype);
    }
  }
  const Maker maker = kMakers[static_cast<size_t>(call.op)];
  if (!maker) return unsupported("this build has no ", call.op);
  return maker(call);
}

}  // namespace sixfold::cpu
