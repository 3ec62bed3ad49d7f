// In place of execute/evaluate.cpp in the build of the readers alone: without kernels, no constant folds.

#include "sixfold/execute/evaluate.h"

namespace sixfold {

Result<std::vector<Tensor>> evaluate(Op, std::span<const Tensor>, const Attrs&, Allocator&) {
  return unsupported("this build has no kernels");
}

}  // namespace sixfold
