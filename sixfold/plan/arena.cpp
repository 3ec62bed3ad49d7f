#include "sixfold/plan/arena.h"

#include <algorithm>
#include <numeric>

#include "sixfold/base/small_sort.h"

namespace sixfold {
namespace {

bool meet(const Block& a, const Block& b) { return a.first <= b.last && b.first <= a.last; }

int life(const Block& b) { return b.last - b.first; }

using Order = std::vector<size_t>;

// Blocks in the given order, each at the lowest offset where no placed block lives at the same time.
Arena place_lowest(std::span<const Block> blocks, const Order& order) {
  Arena arena{std::vector<uint64_t>(blocks.size(), 0), 0};
  Order placed;  // by offset
  for (const size_t i : order) {
    const Block& b = blocks[i];
    uint64_t at = 0;
    for (const size_t p : placed) {
      if (!meet(blocks[p], b)) continue;
      if (at + b.bytes <= arena.offsets[p]) break;
      at = std::max(at, arena.offsets[p] + blocks[p].bytes);
    }
    arena.offsets[i] = at;
    arena.size_bytes = std::max(arena.size_bytes, at + b.bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), i,
                                   [&](size_t x, size_t y) { return arena.offsets[x] < arena.offsets[y]; }),
                  i);
  }
  return arena;
}

// Blocks by falling size into buckets that never grow: at the start of a bucket where nothing lives at the
// same time, else behind what does, else in a new bucket. Buckets lie side by side.
Arena place_in_buckets(std::span<const Block> blocks, const Order& by_size) {
  struct Bucket {
    uint64_t offset, bytes;
    Order members;
  };
  Arena arena{std::vector<uint64_t>(blocks.size(), 0), 0};
  std::vector<Bucket> buckets;
  const auto end_of_meeting = [&](const Bucket& bucket, const Block& b) {
    uint64_t end = 0;
    for (const size_t m : bucket.members)
      if (meet(blocks[m], b)) end = std::max(end, arena.offsets[m] - bucket.offset + blocks[m].bytes);
    return end;
  };
  for (const size_t i : by_size) {
    const Block& b = blocks[i];
    Bucket* chosen = nullptr;
    uint64_t at = 0;
    for (Bucket& bucket : buckets) {
      if (chosen || end_of_meeting(bucket, b) != 0) continue;
      chosen = &bucket;
    }
    for (size_t k = 0; !chosen && k < buckets.size(); ++k) {
      at = end_of_meeting(buckets[k], b);
      if (at + b.bytes <= buckets[k].bytes) chosen = &buckets[k];
    }
    if (!chosen) {
      buckets.push_back({arena.size_bytes, b.bytes, {}});
      chosen = &buckets.back();
      at = 0;
      arena.size_bytes += b.bytes;
    }
    chosen->members.push_back(i);
    arena.offsets[i] = chosen->offset + at;
  }
  return arena;
}

}  // namespace

Arena plan_arena(std::span<const Block> given, uint64_t alignment) {
  std::vector<Block> blocks(given.begin(), given.end());
  for (Block& b : blocks) b.bytes = (std::max<uint64_t>(b.bytes, 1) + alignment - 1) / alignment * alignment;
  if (blocks.empty()) return {};
  Order natural(blocks.size());
  std::iota(natural.begin(), natural.end(), size_t{0});
  // A plain pointer: five copies of the sort would be a few percent of a small runtime.
  using Before = bool (*)(const Block& a, const Block& b);
  const auto sorted = [&](Before before) {
    Order order = natural;
    sort_small(order, [&](size_t x, size_t y) {
      if (before(blocks[x], blocks[y])) return true;
      return x < y && !before(blocks[y], blocks[x]);  // equals as they came
    });
    return order;
  };
  const Order by_size = sorted([](const Block& a, const Block& b) { return a.bytes > b.bytes; });
  const Order orders[] = {
      by_size,
      sorted([](const Block& a, const Block& b) {
        return life(a) != life(b) ? life(a) > life(b) : a.bytes > b.bytes;
      }),
      sorted([](const Block& a, const Block& b) {
        return a.first != b.first ? a.first < b.first : a.bytes > b.bytes;
      }),
      sorted([](const Block& a, const Block& b) {
        return a.last != b.last ? a.last > b.last : a.bytes > b.bytes;
      }),
      sorted([](const Block& a, const Block& b) {
        return static_cast<double>(a.bytes) * (life(a) + 1) > static_cast<double>(b.bytes) * (life(b) + 1);
      }),
  };
  Arena best = place_in_buckets(blocks, by_size);
  // The other candidates come first among equals: they leave the small blocks at low addresses.
  for (auto order = std::rbegin(orders); order != std::rend(orders); ++order) {
    Arena arena = place_lowest(blocks, *order);
    if (arena.size_bytes <= best.size_bytes) best = std::move(arena);
  }
  return best;
}

}  // namespace sixfold
