// What a method did, as the ETDump that ExecuTorch's Inspector opens: a "Default" block for loading, then an
// "Execute" block for each run.
#pragma once

#include <string>

#include "sixfold/execute/method.h"
#include "sixfold/pte/etdump.h"

namespace sixfold {

class EtDumpLog {
 public:
  // Loading the method took [start_ns, end_ns) of the steady clock.
  void add_load(int64_t start_ns, int64_t end_ns);
  // The last execute of a method that is profiling took [start_ns, end_ns).
  void add_run(const Method& method, int64_t start_ns, int64_t end_ns);
  // Written beside and renamed.
  Status write(const std::string& path) const;

 private:
  pte::EtDump dump_;
};

}  // namespace sixfold
