// What a node computes with: reals, although its values have encodings, where the quantizer says so.
#pragma once

#include "sixfold/graph/graph.h"

namespace sixfold {

inline constexpr const char* kCompute = "compute";  // attribute
// A logarithm of 16 bits needs steps above 2^-14 in its result: on Qualcomm's library finer ones give
// anything. The finest that are right.
inline constexpr float kFinestLog = 0x1.01p-14f;
inline bool computes_in_float(const Node& node) { return node.attrs.has(kCompute); }

inline bool is_wide(const Encoding& e) { return e.quant_max - e.quant_min > 255; }  // 16 bits
// What the device cuts sums of such activations with constant weights to, in units of both steps; 1: nothing.
inline int64_t cut_of_sums(const Encoding& x, const Encoding& weight) {
  if (!is_wide(x) || weight.block > 0) return 1;
  return is_wide(weight) ? 65536 : 256;
}

}  // namespace sixfold
