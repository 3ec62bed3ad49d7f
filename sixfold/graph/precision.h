// A node that computes with reals although its values have encodings: the quantizer says so.
#pragma once

#include "sixfold/graph/graph.h"

namespace sixfold {

inline constexpr const char* kCompute = "compute";  // attribute
inline bool computes_in_float(const Node& node) { return node.attrs.has(kCompute); }

}  // namespace sixfold
