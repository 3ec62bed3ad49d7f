// When each piece of planned memory is in use, as the instructions of a method have it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "sixfold/pte/program.h"

namespace sixfold::pte {

// A tensor in planned memory. Instructions are counted over all chains, in their order.
struct Lifetime {
  Index value = 0;
  uint32_t memory_id = 0;
  uint64_t offset = 0, bytes = 0;
  size_t first = 0, last = 0;  // first to last instruction that uses it, both included
};

// Of every tensor with an allocation, by buffer, then offset, then value; those that nothing uses are left
// out. Inputs live from the start, outputs to the end, and what has an initial value all the time. A jump
// back makes whatever lives before and in its loop live to the end of the loop. The method must have passed
// verify().
std::vector<Lifetime> lifetimes(const Method& method);

// The most bytes of a buffer that are in use at once: no plan can have less. Nothing where there are so many
// tensors that it would take long.
std::optional<uint64_t> peak_bytes(const std::vector<Lifetime>& lifetimes, uint32_t memory_id);

}  // namespace sixfold::pte
