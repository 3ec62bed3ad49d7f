// Places in one arena for blocks that live at known times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sixfold {

struct Block {
  uint64_t bytes = 0;
  int first = 0, last = 0;  // steps, both included
};

struct Arena {
  std::vector<uint64_t> offsets;  // one for each block, multiples of the alignment
  uint64_t size_bytes = 0;
};

// Greedy placement in several orders; the smallest arena wins, the first of equals. Blocks that live at one
// time never overlap; a block of no bytes has room for one. Never larger than what ExecuTorch's greedy
// planner (buckets, by falling size) makes of the same blocks: that is one of the orders.
Arena plan_arena(std::span<const Block> blocks, uint64_t alignment);

}  // namespace sixfold
