// What an op is in the emulator: a row of ops/qnn.def with a check and a prepare (ops/<family>/emulate.cpp).
//
//   Status check(const OpView&, const DeviceModel&)   whether the device takes it: the model of the device.
//     Types, ranks, counts and parameters were compared with the op's rules (emulator/rules.h) before; a
//     check looks at what a table cannot say: how shapes, parameters and encodings go together. Never needs
//     data.
//   Result<Step> prepare(const OpView&, Prepare&)      the op as something that runs. Only called after
//   check.
//
// Preparing happens at finalize and again when a context binary is loaded. What is costly (packed weights,
// tables) is made once by Prepare::pack, stored in the binary and used in place after loading; all else is
// computed again from the op's description, so a binary holds no pointers and nothing that would be trusted.
//
// Storage of tensors: fixed point and integers as the API has them. FLOAT_32 is computed as halves by the
// device: it is stored as floats here, and every float that reaches a kernel (inputs, constants, results of
// other ops) is a half's value; a kernel rounds what it writes with to_half (numbers.h). FLOAT_16 is stored
// as halves.
#pragma once

#include <algorithm>
#include <memory>

#include "sixfold/cpu/broadcast.h"
#include "sixfold/cpu/pool.h"
#include "sixfold/emulator/op_view.h"

namespace sixfold::emulator {

// The buffers of one execution of one op.
struct Run {
  std::span<const std::byte* const> ins;  // null: absent
  std::span<std::byte* const> outs;
  std::byte* scratch;  // Prepare::need_scratch bytes, 64-byte aligned; not shared with other executions
  cpu::Pool& pool;

  template <typename T>
  const T* in(size_t i) const {
    return reinterpret_cast<const T*>(ins[i]);
  }
  template <typename T>
  T* out(size_t i = 0) const {
    return reinterpret_cast<T*>(outs[i]);
  }
};

// row(first) for each pixel: its channels follow first.
template <typename Row>
void for_pixels(const Run& run, int64_t pixels, int64_t channels, const Row& row) {
  const int64_t grain = std::max<int64_t>(1, cpu::kElementwiseGrain / std::max<int64_t>(1, channels));
  run.pool.for_ranges(pixels, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) row(i * channels);
  });
}

// Stored numbers are cut to these.
struct Clamp {
  int32_t min = 0, max = 0;
};

// Several executions may run one step at the same time: the state is constant once the graph is finalized.
struct Step {
  void (*run)(const void* state, const Run& run) = nullptr;
  const void* state = nullptr;
  uint64_t macs = 0;  // for profiles
  // What lets the graph leave steps out.
  void (*absorb)(void* state, Clamp clamp) = nullptr;  // its results are cut as well; null: it cannot
  bool clamps = false;                                 // it does no more than `clamp` to in(0)
  Clamp clamp;
  bool copies = false;  // it does no more than copy in(0)'s bytes
};

// The room where an op is prepared.
class Prepare {
 public:
  virtual ~Prepare() = default;

  // Constant bytes that live as long as the graph, 64-byte aligned. At finalize fill(bytes) makes them, all
  // of them, from constants (whose data is there then); after loading a binary they are those that were
  // stored, and fill is not called. Sizes must follow from the op's description alone. Equal bytes are kept
  // once in a context, whichever graph asks.
  template <typename Fill>
  Result<const std::byte*> pack(size_t bytes, const Fill& fill) {
    return pack_bytes(
        bytes, [](const void* f, std::span<std::byte> out) { (*static_cast<const Fill*>(f))(out); }, &fill);
  }
  // The same for elements: fill(std::span<T>).
  template <typename T, typename Fill>
  Result<const T*> pack_values(size_t count, const Fill& fill) {
    const auto typed = [&fill, count](std::span<std::byte> out) {
      fill(std::span<T>(reinterpret_cast<T*>(out.data()), count));
    };
    SF_ASSIGN(const std::byte* bytes, pack(count * sizeof(T), typed));
    return reinterpret_cast<const T*>(bytes);
  }

  // Run::in(i) of a constant is null unless asked for here: constants that were packed need not be stored.
  virtual void use_constant(size_t input) = 0;
  void use_constants() {  // all of them
    for (size_t i = 0; i < kMostOperands; ++i) use_constant(i);
  }

  virtual void need_scratch(size_t bytes) = 0;

  // State that lives as long as the graph.
  template <typename State>
  const State* keep(State state) {
    auto* kept = new State(std::move(state));
    own(kept, [](void* p) { delete static_cast<State*>(p); });
    return kept;
  }
  // A step from a state with `void run(const Run&) const`; one with `void absorb(Clamp)` takes clamps of its
  // results.
  template <typename State>
  Step step(State state, uint64_t macs = 0) {
    Step out{[](const void* s, const Run& run) { static_cast<const State*>(s)->run(run); },
             keep(std::move(state)), macs};
    if constexpr (requires(State & s) { s.absorb(Clamp{}); })
      out.absorb = [](void* s, Clamp clamp) { static_cast<State*>(s)->absorb(clamp); };
    return out;
  }

  static constexpr size_t kMostOperands = 4096;

 private:
  virtual Result<const std::byte*> pack_bytes(size_t bytes, void (*fill)(const void*, std::span<std::byte>),
                                              const void* context) = 0;
  virtual void own(void* state, void (*free)(void*)) = 0;
};

using CheckFunction = Status (*)(const OpView&, const DeviceModel&);
using PrepareFunction = Result<Step> (*)(const OpView&, Prepare&);

}  // namespace sixfold::emulator
