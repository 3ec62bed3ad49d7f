#include "sixfold/emulator/late.h"

#include <cstring>

namespace sixfold::emulator {
namespace {

constexpr size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

// A room of one run: what is packed lies in the run's scratch. Without memory it only counts the bytes.
class RunRoom final : public Prepare {
 public:
  explicit RunRoom(std::byte* memory) : memory_(memory) {}
  ~RunRoom() override {
    for (const auto& [state, free] : states_) free(state);
  }
  void use_constant(size_t) override {}  // they are at hand
  void need_scratch(size_t bytes) override { scratch_ = std::max(scratch_, bytes); }
  size_t packed_bytes() const { return packed_; }
  size_t scratch_bytes() const { return scratch_; }

 private:
  Result<const std::byte*> pack_bytes(size_t bytes, void (*fill)(const void*, std::span<std::byte>),
                                      const void* context) override {
    std::byte* const at = memory_ ? memory_ + packed_ : nullptr;
    packed_ += aligned(bytes);
    if (at) {
      std::memset(at, 0, bytes);
      fill(context, {at, bytes});
    }
    return at;
  }
  void own(void* state, void (*free)(void*)) override { states_.emplace_back(state, free); }

  std::byte* memory_;
  size_t packed_ = 0, scratch_ = 0;
  std::vector<std::pair<void*, void (*)(void*)>> states_;
};

struct Late {
  PrepareFunction prepare;
  std::string name, type;
  std::vector<TensorDef> inputs, outputs;
  std::vector<ParamDef> params;
  size_t packed_bytes = 0;

  Result<Step> make(std::span<const std::byte* const> data, RunRoom& room) const {
    std::vector<TensorDef> given = inputs;
    std::vector<const TensorDef*> in, out;
    for (size_t i = 0; i < given.size(); ++i) {
      if (i > 0 && given[i].is_present()) given[i].kind = TensorKind::constant;
      if (i < data.size()) given[i].data = data[i];
      in.push_back(&given[i]);
    }
    for (const TensorDef& t : outputs) out.push_back(&t);
    return prepare({name, type, in, out, params}, room);
  }

  void run(const Run& run) const {
    RunRoom room(run.scratch);
    const Result<Step> step = make(run.ins, room);
    // Succeeded when the graph was finalized, and depends on the op's description alone.
    if (step.ok()) step->run(step->state, {run.ins, run.outs, run.scratch + packed_bytes, run.pool});
  }
};

}  // namespace

bool has_computed_weights(const OpView& op) {
  for (size_t i = 1; i < op.inputs.size(); ++i)
    if (op.inputs[i]->is_present() && !op.inputs[i]->is_constant()) return true;
  return false;
}

Result<Step> prepare_late(const OpView& op, PrepareFunction prepare, Prepare& room) {
  Late state{
      prepare, std::string(op.name), std::string(op.type), {}, {}, {op.params.begin(), op.params.end()}};
  for (const TensorDef* t : op.inputs) state.inputs.push_back(*t);
  for (const TensorDef* t : op.outputs) state.outputs.push_back(*t);
  RunRoom counted(nullptr);
  SF_ASSIGN(const Step tried, state.make({}, counted));
  state.packed_bytes = counted.packed_bytes();
  room.need_scratch(state.packed_bytes + counted.scratch_bytes());
  for (size_t i = 1; i < op.inputs.size(); ++i) room.use_constant(i);
  return room.step(std::move(state), tried.macs);
}

}  // namespace sixfold::emulator
