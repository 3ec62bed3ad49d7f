// For tests: how often code of this program has called operator new. Not counted under a sanitizer, which has
// allocators of its own.
#pragma once

#include <cstddef>

namespace sixfold::testing {

size_t allocations();

}  // namespace sixfold::testing
