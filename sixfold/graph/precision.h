// What a node computes with: reals, although its values have encodings, where the quantizer says so.
#pragma once

#include "sixfold/graph/graph.h"

namespace sixfold {

inline constexpr const char* kCompute = "compute";  // attribute
// A logarithm of 16 bits needs steps above 2^-14 in its result: on Qualcomm's library finer ones give
// anything. The finest that are right.
inline constexpr float kFinestLog = 0x1.01p-14f;
inline bool computes_in_float(const Node& node) { return node.attrs.has(kCompute); }

}  // namespace sixfold
