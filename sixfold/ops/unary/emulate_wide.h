// Functions that the library computes from 16 to 16 bits in fixed point of its own, with fewer bits than the
// result has: gates of 15 or 12 bits, which results are made of, and inverse roots of 10.
#pragma once

#include <cstdint>

#include "sixfold/emulator/elements.h"

namespace sixfold::emulator {

enum class WideFunction : uint8_t { sigmoid, tanh, hard_swish, gelu, sqrt, rsqrt };

// The result of a stored number, at an even or an odd place of its tensor.
class WideResult {
 public:
  WideResult(WideFunction function, const TensorDef& x, const TensorDef& y);
  uint16_t operator()(int64_t q, bool odd) const;
  // An inverse root whose results would have more bits than the library's table of them is exact there.
  bool applies() const { return function_ != WideFunction::rsqrt || ratio_ < 0.5; }
  bool by_place() const { return recode_.odd_is_cut; }  // whether results differ by place

 private:
  WideFunction function_;
  Codec from_, to_;
  double gate_ = 0, ratio_ = 0;
  Recode recode_;
};

}  // namespace sixfold::emulator
