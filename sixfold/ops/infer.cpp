#include "sixfold/ops/op.h"

namespace sixfold {

InferResult infer_types(Op op, std::span<const Type> in, const Attrs& attrs) {
  using Infer = InferResult (*)(const InferCall&);
  static constexpr Infer kInfer[] = {
      nullptr,
#define OP(id, infer_fn, cpu_fn, layout, legal_fn) keeps(Op::id) ? infer::infer_fn : nullptr,
#include "sixfold/ops/aten.def"
#undef OP
  };
  if (op == Op::call) return Error(Code::Internal, "a call has no inference rule");
  if (Usage* usage = usage_of_this_thread()) usage->ops.insert(op);
  const Infer rule = kInfer[static_cast<size_t>(op)];
  if (!rule) return unsupported("this build has no ", to_text(op));
  return rule({op, in, attrs});
}

}  // namespace sixfold
