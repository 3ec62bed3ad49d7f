#include "sixfold/base/recycled.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace sixfold {
namespace {

TEST(RecycledMemory, blocks_that_live_at_once_share_no_byte) {
  const KeepMemory keep;
  struct Block {
    OwnedBlock memory;
    size_t bytes;
    unsigned char mark;
  };
  std::vector<Block> blocks;
  uint32_t state = 7;
  const auto next = [&](uint32_t n) { return (state = state * 1664525u + 1013904223u) >> 8 & (n - 1); };
  for (int round = 0; round < 400; ++round) {
    if (blocks.size() > 20) {
      const size_t gone = next(16);
      const Block& b = blocks[gone];
      for (size_t i = 0; i < b.bytes; i += 997)
        ASSERT_EQ(std::to_integer<unsigned char>(b.memory.data()[i]), b.mark) << "round " << round;
      blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(gone));
    }
    const size_t bytes = 1000 + next(1 << 20);
    auto made = OwnedBlock::take(recycled_memory(), bytes, "a block");
    ASSERT_TRUE(made.ok());
    ASSERT_EQ(reinterpret_cast<uintptr_t>(made->data()) % 64, 0u);
    const auto mark = static_cast<unsigned char>(round);
    std::memset(made->data(), mark, bytes);
    blocks.push_back({std::move(made).value(), bytes, mark});
  }
}

#ifndef SIXFOLD_SANITIZED
TEST(RecycledMemory, what_small_blocks_gave_back_serves_a_large_one_while_it_is_kept) {
  const KeepMemory keep;
  constexpr size_t kBytes = size_t{1} << 20;
  const std::byte* first = nullptr;
  {
    std::vector<OwnedBlock> small;
    for (int i = 0; i < 8; ++i) {
      auto made = OwnedBlock::take(recycled_memory(), kBytes, "a block");
      ASSERT_TRUE(made.ok());
      if (i == 0) first = made->data();
      small.push_back(std::move(made).value());
    }
  }
  auto large = OwnedBlock::take(recycled_memory(), 8 * kBytes, "a block");
  ASSERT_TRUE(large.ok());
  EXPECT_EQ(large->data(), first);
}
#endif

}  // namespace
}  // namespace sixfold
