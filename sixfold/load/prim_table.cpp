#include "sixfold/load/prim_table.h"

#include <array>

namespace sixfold {

const PrimRow* find_prim(std::string_view name) {
  static constexpr auto kKept = []() consteval {
    std::array<bool, std::size(kPrims)> out{};
    for (size_t i = 0; i < out.size(); ++i) out[i] = keeps(Part::kernel, kPrims[i].name);
    return out;
  }
  ();
  for (size_t i = 0; i < kKept.size(); ++i)
    if (kKept[i] && kPrims[i].name == name) return &kPrims[i];
  return nullptr;
}

}  // namespace sixfold
