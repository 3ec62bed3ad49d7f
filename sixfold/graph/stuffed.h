// Constants with zeros between and behind their elements.
#pragma once

#include "sixfold/base/tensor.h"

namespace sixfold {

// Element i of an axis comes to every[axis] * i, and behind[axis] places follow the last.
Tensor stuffed(const Tensor& data, const Shape& every, const Shape& behind);

}  // namespace sixfold
