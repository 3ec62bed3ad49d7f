// One canonical op on given tensors, now: constants fold with it.
#pragma once

#include <span>
#include <vector>

#include "sixfold/base/tensor.h"
#include "sixfold/ops/op.h"

namespace sixfold {

Result<std::vector<Tensor>> evaluate(Op op, std::span<const Tensor> inputs, const Attrs& attrs,
                                     Allocator& allocator = system_allocator());

}  // namespace sixfold
