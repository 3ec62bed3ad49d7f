// The numbers that integers on a grid stand for.
#pragma once

#include "sixfold/graph/graph.h"

namespace sixfold {

// By tensor, channel or block, in f32.
Tensor reals_of(const Tensor& integers, const Encoding& e);

}  // namespace sixfold
