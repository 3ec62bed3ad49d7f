// Schemes: how many bits activations and weights have.
#pragma once

#include <cstdint>
#include <string_view>

#include "sixfold/base/result.h"
#include "sixfold/graph/graph.h"
#include "sixfold/quantize/observations.h"

namespace sixfold {

struct Scheme {
  int activation_bits = 8;  // 8 or 16; 0: floats
  int weight_bits = 8;      // 2, 4, 8 or 16
  bool blocks = false;      // weights have scales for blocks of input channels where a size is given
  bool computes_in_float() const { return activation_bits == 0; }
  friend bool operator==(const Scheme&, const Scheme&) = default;
};

// "8a8w", "16a4w_block", ...; "fp16" computes in float.
Result<Scheme> scheme_of(std::string_view name);
std::string to_text(const Scheme& scheme);

// The grid of so many bits that covers a range, and zero. Symmetric: signed integers around 0. A range of
// nothing but zeros has a step all the same.
Encoding encoding_for(Range range, int bits, bool symmetric);

}  // namespace sixfold
