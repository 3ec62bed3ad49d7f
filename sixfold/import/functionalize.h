// Names of functional ops: what an in-place op computes.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "sixfold/base/type.h"
#include "sixfold/ops/schema.h"

namespace sixfold {

// "aten.add_.Tensor" -> "aten.add.Tensor". Nothing where no functional op of the table takes the same
// arguments.
std::optional<std::string> functional_target(const Schema& in_place);

// In-place ops that change how a tensor looks at its memory and leave the memory alone:
// "aten.unsqueeze_.default" -> "aten.unsqueeze.default". detach_ and requires_grad_ look at it as it is.
std::optional<std::string> metadata_target(const Schema& in_place);

// The dtype that the functional op gives, where the in-place one rounds to its own: eq gives bool, f16 + f32
// is f32.
DType functional_dtype(const std::string& functional, const Type& self, std::span<const Type> tensors);

}  // namespace sixfold
