// The kernels of ExecuTorch's stock runtime, by the functional op that each computes.
#pragma once

#include <string_view>

#include "sixfold/ops/schema.h"

namespace sixfold {

struct OutKernel {
  std::string_view name;      // "aten::add"
  std::string_view overload;  // "out"
  Schema schema;              // of the out-variant; outs are its last arguments, those that it mutates
};

// Of "aten.add.Tensor"; null where the runtime has none. Thread-safe; the pointer stays valid until the
// process ends.
const OutKernel* find_out_kernel(std::string_view target);

}  // namespace sixfold
