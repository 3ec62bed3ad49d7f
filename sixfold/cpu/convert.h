// One value from one element type to another, as torch's `to` does on x86.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "sixfold/base/dtype.h"

namespace sixfold::cpu {

template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

// Out of range and NaN give the smallest integer, as the processor's own instruction does; plain C++ leaves
// it open.
template <typename Int, typename Float>
Int truncate_to(Float x) {
  constexpr Float kLimit = -static_cast<Float>(std::numeric_limits<Int>::min());
  return x >= -kLimit && x < kLimit ? static_cast<Int>(x) : std::numeric_limits<Int>::min();
}

template <typename To, typename From>
To convert(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (kIsHalf<From>) {
    return convert<To>(static_cast<float>(x));
  } else if constexpr (kIsHalf<To>) {
    return To(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if constexpr (std::is_signed_v<To> && sizeof(To) <= 4)
      return static_cast<To>(truncate_to<int32_t>(x));
    else
      return static_cast<To>(truncate_to<int64_t>(x));
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace sixfold::cpu
