#include "sixfold/plan/plan.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

namespace sixfold {
namespace {

std::vector<PlanValue> random_values(std::mt19937& rng) {
  std::vector<PlanValue> values(1 + rng() % 60);
  for (Slot i = 0; i < values.size(); ++i) {
    PlanValue& v = values[i];
    v.desc.dtype = DType::u8;
    v.desc.shape = {static_cast<int64_t>(rng() % 5000)};
    v.buffer = i;
    v.first = static_cast<int>(rng() % 40);
    v.last = v.first + static_cast<int>(rng() % 12);
  }
  return values;
}

TEST(PlanMemory, no_two_live_values_share_a_byte) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 rng(seed);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  while (std::chrono::steady_clock::now() < end) {
    std::vector<PlanValue> values = random_values(rng);
    const size_t arena = plan_memory(values);
    for (size_t i = 0; i < values.size(); ++i) {
      const PlanValue& a = values[i];
      ASSERT_LE(a.offset + a.desc.size_bytes(), arena);
      ASSERT_EQ(a.offset % 64, 0u);
      for (size_t k = 0; k < i; ++k) {
        const PlanValue& b = values[k];
        const bool together = a.first <= b.last && b.first <= a.last;
        const bool overlap =
            a.offset < b.offset + b.desc.size_bytes() && b.offset < a.offset + a.desc.size_bytes();
        ASSERT_FALSE(together && overlap) << "values " << i << " and " << k;
      }
    }
  }
}

TEST(PlanMemory, values_that_never_meet_share_their_memory) {
  std::vector<PlanValue> values(3);
  for (Slot i = 0; i < 3; ++i) {
    values[i].desc = {DType::u8, {640}, {1}, nullptr};
    values[i].buffer = i;
    values[i].first = static_cast<int>(2 * i);
    values[i].last = static_cast<int>(2 * i + 1);
  }
  EXPECT_EQ(plan_memory(values), 640u);
}

}  // namespace
}  // namespace sixfold
