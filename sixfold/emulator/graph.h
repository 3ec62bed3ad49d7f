// A graph of the emulator: described, finalized (checked, planned, prepared), run.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "sixfold/emulator/constants.h"
#include "sixfold/emulator/kernel.h"

namespace sixfold::emulator {

inline constexpr uint32_t kNone = UINT32_MAX;

struct OpDef {
  std::string name, type;
  std::vector<ParamDef> params;
  std::vector<uint32_t> in, out;  // indices of tensors; kNone: left out
  std::vector<uint32_t> packs;    // constants that preparing made, in order
};

// What an execution is given for one input or output of the graph.
struct Binding {
  uint32_t tensor = 0;
  std::byte* data = nullptr;
};

// Times of one execution.
struct StepTime {
  uint64_t nanoseconds = 0;
};

class Graph {
 public:
  Graph(std::string name, const DeviceModel& device, Constants& constants, Allocator& allocator)
      : name_(std::move(name)), device_(device), constants_(constants), allocator_(allocator) {}
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Building. Data of a constant is copied; floats to the halves that the device keeps of them.
  Result<uint32_t> add_tensor(TensorDef tensor);
  Status add_op(OpDef op);

  // After this nothing can be added. Constants that no kernel reads as they came are freed.
  Status finalize();

  // From a binary: everything is checked as if a client had given it. Constants that are stored are in
  // constants_; stored[i] is that of tensor i.
  Status restore(std::vector<TensorDef> tensors, std::vector<OpDef> ops, std::vector<uint32_t> stored);

  bool is_finalized() const { return finalized_; }
  const std::string& name() const { return name_; }
  const std::vector<TensorDef>& tensors() const { return tensors_; }
  const std::vector<OpDef>& ops() const { return ops_; }
  const std::vector<uint32_t>& stored() const { return stored_; }
  const std::vector<uint32_t>& inputs() const { return inputs_; }  // tensors, in the order of creation
  const std::vector<uint32_t>& outputs() const { return outputs_; }
  const std::vector<uint32_t>& order() const { return order_; }  // ops, as they run
  const Step& step(size_t op) const { return steps_[op]; }
  uint64_t arena_bytes() const { return arena_bytes_; }

  // One binding for every input and output. Any number of threads at once. times: one for each op, or null.
  Status execute(std::span<const Binding> bindings, cpu::Pool& pool, std::span<StepTime> times) const;

 private:
  friend class PrepareRoom;
  struct Owned {
    void* state;
    void (*free)(void*);
  };
  struct Workspace {
    OwnedBlock memory;
    std::vector<std::byte*> at;      // of each tensor
    std::vector<std::byte*> floats;  // of inputs that others see as halves: what the client has; else null
    std::vector<std::byte*> operands;
  };
  OpView view(const OpDef& op, std::vector<const TensorDef*>& operands) const;
  Status connect();  // inputs_, outputs_, order_
  Status prepare_all(bool loading);
  void fuse();
  void plan();
  Result<std::unique_ptr<Workspace>> workspace() const;
  bool is_staged(uint32_t tensor) const;
  bool leaves_as_half(const OpDef& op) const;

  std::string name_;
  DeviceModel device_;
  Constants& constants_;
  Allocator& allocator_;
  std::vector<TensorDef> tensors_;
  std::vector<OwnedBlock> given_;  // bytes of constants, until they are prepared
  std::vector<uint32_t> stored_;   // index of the constant that the tensor's bytes are; kNone: not kept
  std::vector<OpDef> ops_;
  bool finalized_ = false, failed_ = false;

  std::map<uint32_t, TensorDef> widened_;  // by tensor: what its ops compute with (emulator/widen.h)
  std::vector<uint32_t> inputs_, outputs_, order_;
  std::vector<bool> computed_;             // by tensor: an op reads it that does more than change its type
  std::vector<bool> sees_floats_;          // by op: it changes the type of inputs
  std::vector<uint32_t> widened_outputs_;  // FLOAT_32 that were halves
  std::vector<Step> steps_;                // by op
  std::vector<Owned> states_;
  std::vector<bool> left_out_;      // by op: others do its work
  std::vector<uint32_t> place_of_;  // by tensor: the one whose bytes are its own as well
  std::vector<uint64_t> offsets_;   // in the arena, by tensor; kNoPlace: not there
  uint64_t arena_bytes_ = 0, scratch_bytes_ = 0, scratch_at_ = 0;
  size_t most_operands_ = 0;

  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Workspace>> idle_;
};

}  // namespace sixfold::emulator
