// Memory for what is made one after the other (models of calibration and tries, what is lowered): what is given
// back is kept for the next one, since touching fresh pages costs as much as packing weights into them.
#pragma once

#include "sixfold/base/allocator.h"

namespace sixfold {

// Lives as long as the process. Threads may use it at once. What it gives is not zero.
Allocator& recycled_memory();

// While one of these lives, memory is kept; the last one gives all of it back to the system.
class KeepMemory {
 public:
  KeepMemory();
  ~KeepMemory();
  KeepMemory(const KeepMemory&) = delete;
  KeepMemory& operator=(const KeepMemory&) = delete;
};

}  // namespace sixfold
