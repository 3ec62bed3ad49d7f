#include <algorithm>
#include <numeric>

#include "sixfold/plan/plan.h"

namespace sixfold {
namespace {

constexpr size_t kAlignment = 64;
size_t aligned(size_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

struct Block {
  Slot value;
  size_t bytes;
  int first, last;
};

// Places blocks in the given order, each at the lowest offset where no placed block lives at the same time.
size_t place(const std::vector<Block>& order, std::vector<size_t>& offsets) {
  struct Placed {
    size_t offset, end;
    int first, last;
  };
  std::vector<Placed> placed;  // sorted by offset
  size_t total = 0;
  for (const Block& b : order) {
    size_t at = 0;
    for (const Placed& p : placed) {
      if (p.last < b.first || b.last < p.first) continue;
      if (at + b.bytes <= p.offset) break;
      at = std::max(at, p.end);
    }
    const Placed mine{at, at + b.bytes, b.first, b.last};
    placed.insert(std::upper_bound(placed.begin(), placed.end(), mine,
                                   [](const Placed& x, const Placed& y) { return x.offset < y.offset; }),
                  mine);
    offsets[b.value] = at;
    total = std::max(total, mine.end);
  }
  return total;
}

}  // namespace

size_t plan_memory(std::vector<PlanValue>& values) {
  std::vector<Block> blocks;
  for (Slot i = 0; i < values.size(); ++i) {
    const PlanValue& v = values[i];
    if (v.kind == ProgramValue::temporary && v.buffer == i && v.first >= 0)
      blocks.push_back({i, aligned(std::max<size_t>(v.desc.size_bytes(), 1)), v.first, v.last});
  }
  // Several greedy orders; the smallest arena wins, the first of equals.
  std::vector<std::vector<Block>> orders(3, blocks);
  std::stable_sort(orders[0].begin(), orders[0].end(),
                   [](const Block& a, const Block& b) { return a.bytes > b.bytes; });
  std::stable_sort(orders[1].begin(), orders[1].end(), [](const Block& a, const Block& b) {
    return a.last - a.first != b.last - b.first ? a.last - a.first > b.last - b.first : a.bytes > b.bytes;
  });
  std::stable_sort(orders[2].begin(), orders[2].end(),
                   [](const Block& a, const Block& b) { return a.first < b.first; });
  size_t best = SIZE_MAX;
  std::vector<size_t> best_offsets;
  for (const auto& order : orders) {
    std::vector<size_t> offsets(values.size(), 0);
    const size_t total = place(order, offsets);
    if (total < best) {
      best = total;
      best_offsets = std::move(offsets);
    }
  }
  for (const Block& b : blocks) values[b.value].offset = best_offsets[b.value];
  return blocks.empty() ? 0 : best;
}

}  // namespace sixfold
