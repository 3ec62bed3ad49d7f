#include "sixfold/pte/lifetimes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace sixfold::pte {
namespace {

// Files are hostile: more loops than any model has count as one, and work is bounded.
constexpr size_t kMostLoops = 256;
constexpr size_t kMostWork = size_t{1} << 27;

struct Range {
  size_t first = 0, last = 0;
};

class Uses {
 public:
  explicit Uses(const Method& method) : method_(method), ranges_(method.values.size()) {}

  void add(Index value, size_t at) {
    const auto i = static_cast<size_t>(value);
    auto& range = ranges_[i];
    if (!range) range = Range{at, at};
    range->first = std::min(range->first, at);
    range->last = std::max(range->last, at);
  }
  void add(const Instruction& instruction, size_t at) {
    if (const auto* call = std::get_if<KernelCall>(&instruction))
      for (const Index arg : call->args) add(arg, at);
    if (const auto* call = std::get_if<DelegateCall>(&instruction))
      for (const Index arg : call->args) add(arg, at);
    if (const auto* move = std::get_if<Move>(&instruction)) {
      add(move->from, at);
      add(move->to, at);
    }
    if (const auto* jump = std::get_if<JumpFalse>(&instruction)) add(jump->condition, at);
  }
  // What is written before a loop, or first of all read in it, is needed until the loop ends.
  void extend_over_loop(size_t begin, size_t end) {
    for (auto& range : ranges_)
      if (range && range->first <= begin && range->last >= begin && range->last < end) range->last = end;
  }
  // Tensors are used wherever a list that has them is.
  void add_items() {
    for (size_t i = 0; i < ranges_.size(); ++i) {
      const auto* list = std::get_if<TensorList>(&method_.values[i]);
      if (!list || !ranges_[i]) continue;
      for (const Index item : list->items) {
        if (item < 0) continue;
        add(item, ranges_[i]->first);
        add(item, ranges_[i]->last);
      }
    }
  }
  std::vector<std::optional<Range>>& ranges() { return ranges_; }

 private:
  const Method& method_;
  std::vector<std::optional<Range>> ranges_;
};

}  // namespace

std::vector<Lifetime> lifetimes(const Method& method) {
  Uses uses(method);
  size_t count = 0;
  std::vector<std::pair<size_t, size_t>> loops;
  for (const auto& chain : method.chains) {
    for (size_t i = 0; i < chain.size(); ++i) {
      uses.add(chain[i], count + i);
      const auto* jump = std::get_if<JumpFalse>(&chain[i]);
      if (jump && jump->destination <= i) loops.emplace_back(count + jump->destination, count + i);
    }
    count += chain.size();
  }
  const size_t end = count == 0 ? 0 : count - 1;
  for (const Index input : method.inputs) uses.add(input, 0);
  for (const Index output : method.outputs) uses.add(output, end);
  uses.add_items();
  if (loops.size() > kMostLoops) {
    for (const auto& [begin, last] : loops)
      loops[0] = {std::min(loops[0].first, begin), std::max(loops[0].second, last)};
    loops.resize(1);
  }
  for (const auto& [begin, last] : loops) uses.extend_over_loop(begin, last);

  std::vector<Lifetime> out;
  for (size_t i = 0; i < method.values.size(); ++i) {
    const auto* tensor = std::get_if<Tensor>(&method.values[i]);
    if (!tensor || !tensor->allocation) continue;
    auto range = uses.ranges()[i];
    if (tensor->data_index != 0 || tensor->location == Location::external) range = Range{0, end};
    if (!range) continue;
    out.push_back({static_cast<Index>(i), tensor->allocation->memory_id, tensor->allocation->offset,
                   size_bytes(*tensor).value_or(0), range->first, range->last});
  }
  std::sort(out.begin(), out.end(), [](const Lifetime& a, const Lifetime& b) {
    return std::tie(a.memory_id, a.offset, a.value) < std::tie(b.memory_id, b.offset, b.value);
  });
  return out;
}

std::optional<uint64_t> peak_bytes(const std::vector<Lifetime>& lifetimes, uint32_t memory_id) {
  // Values that share bytes at the same time are views of each other: the union of their ranges counts.
  std::map<size_t, std::vector<const Lifetime*>> begins;
  for (const Lifetime& life : lifetimes) {
    if (life.memory_id != memory_id || life.bytes == 0) continue;
    begins[life.first].push_back(&life);
  }
  std::vector<const Lifetime*> live;  // by offset
  uint64_t peak = 0;
  size_t work = 0;
  for (const auto& [at, starting] : begins) {
    std::erase_if(live, [at = at](const Lifetime* life) { return life->last < at; });
    work += (live.size() + 1) * 8;
    if (work > kMostWork) return std::nullopt;
    live.insert(live.end(), starting.begin(), starting.end());
    std::sort(live.begin(), live.end(),
              [](const Lifetime* a, const Lifetime* b) { return a->offset < b->offset; });
    uint64_t used = 0, reached = 0;
    for (const Lifetime* life : live) {
      const uint64_t end = life->offset + life->bytes;
      if (end <= reached) continue;
      used += end - std::max(reached, life->offset);
      reached = end;
    }
    peak = std::max(peak, used);
  }
  return peak;
}

}  // namespace sixfold::pte
