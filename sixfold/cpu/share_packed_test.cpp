#include "sixfold/cpu/share_packed.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace sixfold::cpu {
namespace {

// Counts how often it is packed.
struct Packer {
  std::atomic<int> times = 0;
  std::shared_ptr<const OwnedBlock> get(const void* constant, const std::string& key) {
    auto out = share_packed(
        constant, [&] { return key; },
        [&] {
          ++times;
          std::this_thread::sleep_for(std::chrono::milliseconds(5));  // for others to come meanwhile
          return OwnedBlock::take(system_allocator(), 64, "packed");
        });
    EXPECT_TRUE(out.ok());
    return out.ok() ? out.value() : nullptr;
  }
};

TEST(SharePacked, what_nobody_shares_is_packed_each_time) {
  const Tensor t = Tensor::scalar(1.0, DType::f32);
  Packer packer;
  EXPECT_NE(packer.get(t.data, "a"), packer.get(t.data, "a"));
  EXPECT_EQ(packer.times, 2);
}

TEST(SharePacked, what_is_shared_is_packed_once_for_a_layout_and_forgotten_with_the_last_sharer) {
  const Tensor t = Tensor::scalar(1.0, DType::f32), other = Tensor::scalar(1.0, DType::f32);
  Packer packer;
  {
    const SharePacked first({t});
    const auto a = packer.get(t.data, "a");
    EXPECT_EQ(packer.get(t.data, "a"), a);
    EXPECT_NE(packer.get(t.data, "b"), a);
    EXPECT_EQ(packer.times, 2);
    EXPECT_NE(packer.get(other.data, "a"), a);
    EXPECT_EQ(packer.times, 3);
    { const SharePacked second({t, other}); }
    EXPECT_EQ(packer.get(t.data, "a"), a);
    EXPECT_EQ(packer.times, 3);
  }
  packer.get(t.data, "a");
  EXPECT_EQ(packer.times, 4);
}

TEST(SharePacked, one_thread_packs_and_the_others_wait) {
  const Tensor t = Tensor::scalar(1.0, DType::f32);
  const SharePacked share({t});
  Packer packer;
  std::vector<std::thread> threads;
  std::vector<std::shared_ptr<const OwnedBlock>> blocks(4);
  for (auto& block : blocks) threads.emplace_back([&] { block = packer.get(t.data, "a"); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(packer.times, 1);
  for (const auto& block : blocks) EXPECT_EQ(block, blocks[0]);
}

TEST(SharePacked, a_failure_is_told_and_tried_again) {
  const Tensor t = Tensor::scalar(1.0, DType::f32);
  const SharePacked share({t});
  const auto failing = share_packed(
      t.data, [] { return std::string("a"); }, []() -> Result<OwnedBlock> { return invalid_argument("no"); });
  EXPECT_FALSE(failing.ok());
  Packer packer;
  EXPECT_NE(packer.get(t.data, "a"), nullptr);
}

}  // namespace
}  // namespace sixfold::cpu
