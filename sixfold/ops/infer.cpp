#include "sixfold/ops/op.h"

namespace sixfold {

InferResult infer_types(Op op, std::span<const Type> in, const Attrs& attrs) {
  using Infer = InferResult (*)(const InferCall&);
  static constexpr Infer kInfer[] = {
      nullptr,
#define OP(id, infer_fn, cpu_fn, layout, legal_fn) infer::infer_fn,
#include "sixfold/ops/aten.def"
#undef OP
  };
  if (op == Op::call) return Error(Code::Internal, "a call has no inference rule");
  return kInfer[static_cast<size_t>(op)]({op, in, attrs});
}

}  // namespace sixfold
