// One caller at a time: whoever comes while another is inside gets an error.
#pragma once

#include <atomic>

#include "sixfold/base/result.h"

namespace sixfold {

class Turn {
 public:
  explicit Turn(std::atomic<bool>& busy)
      : busy_(busy), mine_(!busy.exchange(true, std::memory_order_acquire)) {}
  ~Turn() {
    if (mine_) busy_.store(false, std::memory_order_release);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  bool ok() const { return mine_; }
  Error refusal() const {
    return Error(Code::InvalidArgument, "the method is in use by another thread, and runs in one at a time");
  }

 private:
  std::atomic<bool>& busy_;
  bool mine_;
};

}  // namespace sixfold
