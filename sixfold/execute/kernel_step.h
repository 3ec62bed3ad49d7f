// A kernel call of a method: which values it reads and writes, and the code that is prepared for what they
// are now. Static calls are prepared when the method is loaded, others when their shapes or numbers change.
#pragma once

#include <memory>

#include "sixfold/base/allocator.h"
#include "sixfold/execute/prepared_call.h"
#include "sixfold/execute/values.h"
#include "sixfold/load/kernel_table.h"

namespace sixfold {

// One piece of memory for all calls of a method, since one runs at a time; who gives it; and what calls
// share.
struct Scratch {
  Allocator* allocator = nullptr;
  OwnedBlock block;
  cpu::SharedParts shared;
  Status reserve(size_t bytes);  // keeps what is large enough
};

class KernelStep {
 public:
  // What the method knows of its values, by index.
  struct Facts {
    std::span<const bool> varies;  // sizes, numbers or places change while the method runs
    std::span<const bool> read;    // somebody reads it after it was written: only then must it be computed
  };
  // row and rule are what find_kernel and aten::find_rule gave; args has the row's arity.
  static Result<KernelStep> create(const KernelRow& row, const AtenRule& rule,
                                   std::span<const pte::Index> args, const Values& values, const Facts& facts,
                                   int64_t seed);

  // Prepares a call that can be prepared now: at load, when all memory has its place. `varying`: tries also
  // one whose sizes change, with those of now, and forgets it: for tools that ask what a program needs.
  Status prepare_static(Values& values, Scratch& scratch, bool varying = false);
  // Constants that a prepared call does not read any more: it has them packed.
  std::vector<std::span<const std::byte>> unread_constants(const Values& values) const;
  // Prepares if need be, and runs.
  Status run(Values& values, Scratch& scratch, cpu::Pool& pool);

  const KernelRow& row() const { return *row_; }

 private:
  void collect_operand(pte::Index index, const Values& values);
  Status read_addresses(Values& values);
  Status check_bools(const Values& values) const;
  Result<Attrs> read_attrs(const Values& values) const;
  void write_key(const Values& values);
  Status prepare(Values& values, Scratch& scratch, bool with_data, bool* missed_data);
  Result<std::unique_ptr<PreparedCall>> make(const Values& values, const Attrs& attrs, bool with_data,
                                             bool direct, Scratch& scratch, bool* missed_data);
  bool overlaps(const Values& values) const;
  Status resize_results(Values& values);

  const KernelRow* row_ = nullptr;
  const AtenRule* rule_ = nullptr;
  std::vector<pte::Index> args_;      // without the returned one
  std::vector<pte::Index> operands_;  // tensors that it reads; -1: None in a list
  std::vector<pte::Index> bools_;     // those of bools that are not constant
  std::vector<pte::Index> results_;   // tensors that it writes
  std::vector<bool> used_;            // by result
  int64_t seed_ = 0;
  bool varies_ = false;      // must be compared with what was prepared
  bool needs_data_ = false;  // prepared anew for each run, with the operands' data

  std::unique_ptr<PreparedCall> call_;
  std::vector<int64_t> key_, new_key_;
  std::vector<const std::byte*> operand_data_;
  std::vector<std::byte*> result_data_;
  bool moved_ = false;  // addresses differ from those that call_ was prepared for or bound to
  bool bound_ = false;
  const std::byte* bound_scratch_ = nullptr;
};

}  // namespace sixfold
