// A graph on the CPU engine whose values can be looked at, and changed, while it runs.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "sixfold/cpu/share_packed.h"
#include "sixfold/engine/engine.h"

namespace sixfold {

// A product whose result only an activation reads: the device computes both at once, so nobody has a range
// for the value between them.
bool is_inside_product(const Graph& graph, ValueId value);

size_t constant_bytes(const Graph& graph);

// What models of this graph pack alike they have in common meanwhile; null: it is so large that it stays too
// much.
std::shared_ptr<const cpu::SharePacked> share_constants(const Graph& graph);

// How many models of a graph to make for so many samples on so many threads: each packs the weights for
// itself, so a large one runs its samples one after the other, with the threads inside.
struct Lanes {
  size_t count = 1, threads = 1;  // threads of each
};
Lanes lanes_for(const Graph& graph, size_t samples, size_t threads);

// run(lane, i) for every sample i: each lane's share of them one after the other, lanes side by side. A lane
// has a status. The first lane's error.
template <typename Lane, typename Run>
Status run_in_lanes(cpu::Pool& pool, std::vector<Lane>& lanes, size_t samples, const Run& run) {
  pool.for_each(lanes.size(), [&](size_t k) {
    lanes[k].status = [&]() -> Status {
      for (size_t i = k; i < samples; i += lanes.size()) SF_TRY(run(lanes[k], i));
      return {};
    }();
  });
  for (Lane& lane : lanes) SF_TRY(std::move(lane.status));
  return {};
}

class Watched {
 public:
  // Every node is canonical and every shape static. Values that is_inside_product tells are not shown, and
  // neither are those that reshape and permute make: they have the elements of their operand.
  // inside: the first kind is shown. bf16: factors of products with weights may be rounded to it (conv.h).
  // A graph that is moved here gives its constants back as they are packed. making: threads to make it with;
  // null: those of the pool that runs it.
  static Result<std::unique_ptr<Watched>> create(Graph graph, cpu::Pool& pool, bool inside = false,
                                                 bool bf16 = false, cpu::Pool* making = nullptr);

  // value: of the graph that was given. The data is dense, in the order of the desc's strides.
  using Watch = std::function<Status(ValueId value, const cpu::TensorDesc& desc, void* data)>;
  void set_watch(Watch watch);

  // The tensor leaves; states begin as the graph says.
  Status run(std::span<const Tensor> inputs);
  size_t output_count() const { return executor_->output_count(); }
  Tensor output(size_t i) const;  // valid until the next run
  std::vector<Tensor> copy_outputs() const;
  size_t arena_bytes() const { return executor_->plan().arena_bytes; }

 private:
  std::vector<ValueId> value_of_;  // by slot of the program
  std::unique_ptr<Executor> executor_;
};

}  // namespace sixfold
