#include "sixfold/pte/lifetimes.h"

#include <gtest/gtest.h>

#include <vector>

namespace sixfold::pte {
namespace {

Tensor planned(uint64_t offset, int32_t bytes) {
  return {.dtype = DType::u8, .sizes = {bytes}, .dim_order = {0}, .allocation = Allocation{1, offset}};
}

// 0 -> 1 -> 2 -> 3, where 2 takes the place of 0; 4 is a state.
Method chain_of_three() {
  Method m{.name = "forward",
           .values = {planned(0, 10), planned(16, 20), planned(0, 12), planned(40, 4), planned(48, 8)},
           .inputs = {0},
           .outputs = {3},
           .chains = {{KernelCall{0, {0, 1, 1}}, KernelCall{0, {1, 2, 2}}, KernelCall{0, {2, 3, 3}}}},
           .operators = {{"op", ""}},
           .buffer_sizes = {0, 64}};
  std::get<Tensor>(m.values[4]).data_index = 1;
  return m;
}

std::vector<std::vector<size_t>> ranges(const Method& method) {
  std::vector<std::vector<size_t>> out;
  for (const Lifetime& life : lifetimes(method))
    out.push_back({static_cast<size_t>(life.value), life.first, life.last});
  return out;
}

TEST(Lifetimes, reach_from_the_first_to_the_last_use) {
  const std::vector<std::vector<size_t>> expected = {{0, 0, 0}, {2, 1, 2}, {1, 0, 1}, {3, 2, 2}, {4, 0, 2}};
  EXPECT_EQ(ranges(chain_of_three()), expected);
}

TEST(Lifetimes, peak_counts_what_is_there_at_once) {
  const auto lives = lifetimes(chain_of_three());
  EXPECT_EQ(peak_bytes(lives, 1), 20u + 12 + 8);
  EXPECT_EQ(peak_bytes(lives, 2), 0u);
}

TEST(Lifetimes, a_loop_keeps_what_it_reads) {
  Method m = chain_of_three();
  m.values.push_back(true);
  m.chains[0].push_back(JumpFalse{5, 1});
  // 1 is read again when the loop begins anew.
  EXPECT_EQ(ranges(m)[2], (std::vector<size_t>{1, 0, 3}));
}

TEST(Lifetimes, lists_use_their_items) {
  Method m = chain_of_three();
  m.values.push_back(TensorList{.items = {0, 3}});
  std::get<KernelCall>(m.chains[0][1]).args.insert(std::get<KernelCall>(m.chains[0][1]).args.begin(), 5);
  EXPECT_EQ(ranges(m)[0], (std::vector<size_t>{0, 0, 1}));
}

}  // namespace
}  // namespace sixfold::pte
