// Whether this is a selective build (docs/runtime.md), which is for size: it has one way to compute something
// where others are for speed alone.
#pragma once

namespace sixfold {

#ifdef SIXFOLD_SELECTION
inline constexpr bool kForSize = true;
#else
inline constexpr bool kForSize = false;
#endif

}  // namespace sixfold
