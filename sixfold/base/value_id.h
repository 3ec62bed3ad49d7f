// The name of a tensor inside whoever owns it: a graph, a patch, the steps of one kernel call.
#pragma once

#include <compare>
#include <cstdint>

namespace sixfold {

struct ValueId {
  uint32_t index = UINT32_MAX;
  bool valid() const { return index != UINT32_MAX; }
  friend auto operator<=>(const ValueId&, const ValueId&) = default;
};
inline constexpr ValueId kNoValue{};  // an optional operand that is absent

}  // namespace sixfold
