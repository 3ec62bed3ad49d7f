// What a method did, as the ETDump that ExecuTorch's Inspector opens: a "Default" block for loading, then an
// "Execute" block for each run. With keep_values also what every instruction gave: the bytes of tensors go to
// a file of their own, the Inspector's debug buffer.
#pragma once

#include <map>
#include <string>

#include "sixfold/execute/method.h"
#include "sixfold/pte/etdump.h"

namespace sixfold {

class EtDumpLog final : public MethodObserver {
 public:
  // Values are kept, up to so many bytes of all runs; the log must be the method's observer
  // (MethodOptions::observer).
  void keep_values(size_t most_bytes);

  // Loading the method took [start_ns, end_ns) of the steady clock.
  void add_load(int64_t start_ns, int64_t end_ns);
  void forget_runs();
  // From here to add_run values are kept. Runs of different inputs have different numbers: the Inspector
  // expects equal outputs of all runs that have the same.
  void begin_run(int32_t inputs = -1);
  // The last execute of a method that is profiling took [start_ns, end_ns).
  void add_run(const Method& method, int64_t start_ns, int64_t end_ns);

  // Both are written beside and renamed. Fails when keep_values gave too little; zeros fill up to file_bytes.
  Status write(const std::string& path) const;
  Status write_values(const std::string& path, size_t file_bytes = 0) const;

  void ran(uint32_t chain, uint32_t instruction, std::span<const ObservedResult> results) override;

 private:
  pte::LoggedTensor keep(const TensorState& tensor);
  void add_delegate(const DelegateReport& report, int32_t chain, int32_t instruction, pte::EtDump::Run& run);
  bool add_value(const ObservedResult& result, pte::DebugEvent& event);

  pte::EtDump dump_;
  bool keeps_ = false, running_ = false;
  int32_t inputs_ = -1;
  size_t most_bytes_ = 0;
  size_t needed_bytes_ = 0;  // also of what did not fit any more
  std::vector<std::byte> bytes_;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<pte::DebugEvent>> values_;  // of this run
};

}  // namespace sixfold
