// Which tensors the device has in tiles when an op reads them: there it converts as it adds.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sixfold/emulator/graph.h"
#include "sixfold/emulator/wiring.h"

namespace sixfold::emulator {

bool is_wide(const TensorDef& t);      // numbers of 16 bits
uint32_t rows_of(const TensorDef& t);  // of a matrix
bool has_whole_tiles(uint32_t rows);   // several
bool has_one_matrix(const TensorDef& t);
std::vector<uint32_t> axes_of(const TensorDef& t);  // but those of one

// How tensor t, which is converted from 16 bits to 16, lies when it is.
void place(uint32_t t, std::span<const TensorDef> tensors, const Wiring& wiring, TensorDef& out);

// Whether what is converted for products of 16 by 16 bits, as their second operand, lies in tiles then: where
// its last two axes were just swapped, if an op made what was, and some of what is of three matrices or more.
bool is_factor_in_tiles(const OpDef& convert, std::span<const TensorDef> tensors, const Wiring& wiring);

// The encoding of a sum that a conversion to numbers as wide alone reads, maybe behind reshapes that add or
// drop axes of one: the conversion's, in its own type.
std::optional<qnn::ScaleOffset> converted_sum(const OpDef& convert, std::span<const TensorDef> tensors,
                                              const Wiring& wiring);

// A product of 16 bits with one number above zero that is read in tiles alone, or of what had 8 bits and was
// converted there.
bool is_tiled_product(const OpDef& op, const std::vector<bool>& tiled, std::span<const TensorDef> tensors,
                      const Wiring& wiring);

// Whether op's result is in tiles where it is added; `tiled` has those of the ops before it.
bool adds_in_tiles(const OpDef& op, const std::vector<bool>& tiled, std::span<const TensorDef> tensors,
                   const Wiring& wiring);

// Whether the result of 8 bits of a linear layer becomes floats in its tiles. Where its rows fill several
// tiles it does if what it reads was made in tiles, else with so many columns and numbers.
bool leaves_in_tiles(uint32_t t, std::span<const TensorDef> tensors, const Wiring& wiring);

}  // namespace sixfold::emulator
