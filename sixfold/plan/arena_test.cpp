#include "sixfold/plan/arena.h"

#include <gtest/gtest.h>

#include <random>

namespace sixfold {
namespace {

uint64_t aligned(uint64_t n, uint64_t alignment) {
  return (std::max<uint64_t>(n, 1) + alignment - 1) / alignment * alignment;
}

// The most bytes that live at one time: no plan is smaller.
uint64_t busiest(const std::vector<Block>& blocks, uint64_t alignment) {
  uint64_t most = 0;
  for (const Block& at : blocks) {
    uint64_t sum = 0;
    for (const Block& b : blocks)
      if (b.first <= at.first && at.first <= b.last) sum += aligned(b.bytes, alignment);
    most = std::max(most, sum);
  }
  return most;
}

TEST(Arena, blocks_that_live_at_one_time_never_share_a_byte) {
  std::mt19937 rng(7);
  for (int round = 0; round < 200; ++round) {
    const uint64_t alignment = uint64_t{1} << (rng() % 8);
    std::vector<Block> blocks(rng() % 40);
    for (Block& b : blocks) {
      b.bytes = rng() % 1000;
      b.first = static_cast<int>(rng() % 30) - 1;
      b.last = b.first + static_cast<int>(rng() % 10);
    }
    const Arena arena = plan_arena(blocks, alignment);
    ASSERT_EQ(arena.offsets.size(), blocks.size());
    ASSERT_GE(arena.size_bytes, busiest(blocks, alignment));
    for (size_t i = 0; i < blocks.size(); ++i) {
      const uint64_t end = arena.offsets[i] + blocks[i].bytes;
      ASSERT_EQ(arena.offsets[i] % alignment, 0u);
      ASSERT_LE(end, arena.size_bytes);
      for (size_t j = 0; j < i; ++j) {
        const bool meet = blocks[i].first <= blocks[j].last && blocks[j].first <= blocks[i].last;
        const bool apart = end <= arena.offsets[j] || arena.offsets[j] + blocks[j].bytes <= arena.offsets[i];
        ASSERT_TRUE(!meet || apart) << "blocks " << i << " and " << j << " in round " << round;
      }
    }
  }
}

TEST(Arena, a_chain_needs_its_two_largest_neighbours) {
  const std::vector<Block> chain = {{100, 0, 1}, {200, 1, 2}, {300, 2, 3}, {50, 3, 4}};
  EXPECT_EQ(plan_arena(chain, 1).size_bytes, 500u);
}

TEST(Arena, nothing_needs_nothing) { EXPECT_EQ(plan_arena({}, 64).size_bytes, 0u); }

}  // namespace
}  // namespace sixfold
