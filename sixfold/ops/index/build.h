// What the ATen rules of indexing share.
#pragma once

#include "sixfold/ops/shape/build.h"

namespace sixfold::aten {

// An advanced index x[.., indices, ..] in canonical form: which axes, and integers for each. Boolean masks
// that are known became their true positions.
struct AdvancedIndex {
  Shape dims;
  std::vector<ValueId> indices;
};
// Masks that are data stay: `mask` is set when the only index is one, and `axis` is where its axes begin.
struct MaskIndex {
  ValueId mask;
  int64_t axis = 0;
};
bool read_indices(Call& call, ValueId x, AdvancedIndex& out, std::optional<MaskIndex>& mask);

// Indices brought into range; false where an extent is not a number above zero.
bool clamp_indices(Call& call, ValueId x, AdvancedIndex& at);

// An index operand as i64 or i32.
inline ValueId as_index(Call& call, ValueId index) {
  return call.dtype_of(index) == DType::i32 ? index : call.to(index, DType::i64);
}

// Coordinates of the true elements of a mask, one list per axis.
std::vector<std::vector<int64_t>> true_positions(const Tensor& mask);

std::span<const AtenRule> take_rules();
std::span<const AtenRule> put_rules();
std::span<const AtenRule> sort_rules();

}  // namespace sixfold::aten
