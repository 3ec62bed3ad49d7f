// A method of a program, bound to memory, kernels and delegates, ready to run.
//
// Loading takes all memory and prepares every call whose shapes are fixed; executing such a method allocates
// nothing. Calls whose shapes or numbers change are prepared anew when they do.
//
// Methods are independent of each other: each may run in a thread of its own. One method runs in one thread
// at a time; a call that comes while another is running is an error, not a race.
#pragma once

#include <atomic>
#include <map>
#include <memory>

#include "sixfold/base/allocator.h"
#include "sixfold/execute/delegate.h"
#include "sixfold/execute/kernel_step.h"
#include "sixfold/execute/method_memory.h"
#include "sixfold/execute/prims.h"
#include "sixfold/execute/values.h"
#include "sixfold/load/prim_table.h"
#include "sixfold/load/program.h"

namespace sixfold {

// Somebody else's tensor.
struct TensorView {
  DType dtype = DType::none;
  std::span<const int64_t> sizes;
  std::span<const uint8_t> dim_order;  // axes from outermost to innermost; empty: row-major
  const std::byte* data = nullptr;

  size_t size_bytes() const;
};

// Sees what instructions give, right after each ran: later ones write over it.
struct ObservedResult {
  std::vector<const MethodValue*> values;  // one, unless it is a list; null: None in a list
  bool is_list = false;
};
class MethodObserver {
 public:
  virtual ~MethodObserver() = default;
  // Results of a kernel, arguments of a delegate; nothing for other instructions.
  virtual void ran(uint32_t chain, uint32_t instruction, std::span<const ObservedResult> results) = 0;
};

struct MethodOptions {
  // Memory for the planned buffers of the method, in order (pte::Method::buffer_sizes without its first
  // entry); each at least as large, aligned to 16 or more, and alive as long as the method. Empty: taken from
  // the allocator.
  std::span<const std::span<std::byte>> arenas;
  Allocator* allocator = nullptr;  // null: the C library's. Must outlive the method.
  cpu::Pool* pool = nullptr;       // null: one of its own, of `threads`. Must outlive the method.
  size_t threads = 1;              // 0: one for each core
  // With one, results that nobody reads are computed too. Must outlive the method.
  MethodObserver* observer = nullptr;
  // For tools that ask what a program needs: see KernelStep::prepare_static.
  bool prepare_varying = false;
  // What a jump backwards may cost at most.
  uint64_t max_instructions = 10'000'000;
};

class Method {
 public:
  // Fails with all kernels and delegates that this build does not have, by name.
  static Result<std::unique_ptr<Method>> load(const Program& program, std::string_view name = "forward",
                                              const MethodOptions& options = {});
  ~Method();

  const std::string& name() const { return plan_->name; }
  size_t threads() const { return pool_->threads(); }
  size_t input_count() const { return plan_->inputs.size(); }
  size_t output_count() const { return plan_->outputs.size(); }
  // What an input or output is now: a tensor with its sizes, a number, ...
  const MethodValue& input(size_t i) const { return values_[plan_->inputs[i]]; }
  const MethodValue& output(size_t i) const { return values_[plan_->outputs[i]]; }

  // A planned input is copied, and must be set again before each execute, since its memory is used for other
  // values later; memory of another dim order is reordered on the way. An input without a place in the plan
  // is read where it is: data must have its dim order and live until it is set anew.
  Status set_input(size_t i, const TensorView& tensor);
  // Numbers are part of the program: they must equal what it was made with.
  Status set_input(size_t i, int64_t value);
  Status set_input(size_t i, double value);
  Status set_input(size_t i, bool value);
  // Memory for an output that has no place in the plan; without a call the method has its own.
  Status set_output(size_t i, std::span<std::byte> memory);

  Status execute();
  // A tensor output; valid until the next execute.
  Result<TensorView> output_tensor(size_t i) const;

  // Planned tensors with initial values (mutable buffers) get them back.
  Status reset_state();

  // Nanoseconds of each instruction in the last execute, chain after chain.
  void set_profiling(bool on) { profiling_ = on; }
  struct Profile {
    std::string name;       // of the kernel or delegate, otherwise the kind
    std::string_view kind;  // OPERATOR_CALL, DELEGATE_CALL, MOVE_CALL, JF_CALL or FREE_CALL
    uint32_t chain, instruction;
    int64_t start_ns, end_ns;                  // start_ns 0: not executed
    const DelegateReport* delegate = nullptr;  // valid until the next execute; null: it has nothing to say
  };
  std::vector<Profile> profile() const;

 private:
  struct PrimStep {
    Prim prim;
    std::span<const pte::Index> args;
  };
  struct DelegateStep {
    uint32_t index;
    std::vector<MethodValue*> args;
  };
  struct NoStep {};  // done once and for all when the method was loaded
  using Step = std::variant<KernelStep, PrimStep, DelegateStep, pte::Move, pte::JumpFalse, pte::Free, NoStep>;
  struct BoundDelegate {
    const DelegateFunctions* functions;
    void* handle;
  };

  Method(Program program, const pte::Method& plan, const MethodOptions& options);
  Status check_names() const;
  Status bind_memory(const MethodOptions& options);
  Status bind_constants();
  Status bind_unplanned();
  Status init_delegates();
  Status bind_steps();
  void bind_observed();
  ObservedResult observed(pte::Index i) const;
  Result<Step> bind_step(const pte::Instruction& instruction, const KernelStep::Facts& facts, int64_t seed);
  Status run_chain(size_t chain, uint64_t& budget);
  Result<bool> is_true(pte::Index condition) const;
  Status check_number(size_t i, double value, std::string_view kind);
  std::string describe(size_t chain, size_t step) const;

  Program program_;
  const pte::Method* plan_;
  MethodMemory allocator_;
  std::unique_ptr<cpu::Pool> own_pool_;
  cpu::Pool* pool_;
  uint64_t max_instructions_;
  bool prepare_varying_;
  Values values_;
  std::vector<std::span<std::byte>> arenas_;
  std::vector<OwnedBlock> blocks_;
  Scratch scratch_;
  std::vector<std::vector<Step>> chains_;
  MethodObserver* observer_;
  std::vector<std::vector<std::vector<ObservedResult>>> observed_;  // by chain and instruction
  std::vector<BoundDelegate> delegates_;
  std::vector<bool> input_set_;
  std::atomic<bool> busy_ = false;
  bool profiling_ = false;
  std::vector<std::vector<std::pair<int64_t, int64_t>>> times_;
  std::map<std::pair<size_t, size_t>, DelegateReport> reports_;  // by chain and instruction
};

}  // namespace sixfold
