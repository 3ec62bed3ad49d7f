// Which windows the device takes in two steps, as lowering avoids it and the emulator does it.
#pragma once

#include <cstdint>

namespace sixfold {

// Windows that do not overlap, of even sides, are taken as ones of half the sides and then two by two; not
// where the input's side is odd, nor down to a single row or column. One side of it, the input with its
// padding.
inline bool is_halved_side(int64_t in, int64_t out, int64_t taps, int64_t stride) {
  return taps == stride && taps % 2 == 0 && taps >= 4 && in % 2 == 0 && out > 1;
}

}  // namespace sixfold
