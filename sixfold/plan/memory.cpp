#include "sixfold/plan/arena.h"
#include "sixfold/plan/plan.h"

namespace sixfold {

size_t plan_memory(std::vector<PlanValue>& values) {
  constexpr uint64_t kAlignment = 64;
  std::vector<Block> blocks;
  std::vector<Slot> owners;
  for (Slot i = 0; i < values.size(); ++i) {
    const PlanValue& v = values[i];
    if (v.kind != ProgramValue::temporary || v.buffer != i || v.first < 0) continue;
    blocks.push_back({v.desc.size_bytes(), v.first, v.last});
    owners.push_back(i);
  }
  const Arena arena = plan_arena(blocks, kAlignment);
  for (size_t k = 0; k < owners.size(); ++k) values[owners[k]].offset = arena.offsets[k];
  return arena.size_bytes;
}

}  // namespace sixfold
