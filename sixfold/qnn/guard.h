// Running what may crash the vendor's code in a child process.
//
// The child is a fork, in which only the calling thread goes on: workers of a library that is at work already
// are not there, so body must open what it uses itself, and nobody may hold a Backend yet. A child that waits
// for ever for such a thread ends at the time limit.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

#include "sixfold/base/bytes.h"
#include "sixfold/base/result.h"

namespace sixfold::qnn {

// What body returned, bytes or error. Device when the child was ended by a signal or ran past limit_s; what
// says what it was doing: "loading a context binary". The child's standard output goes nowhere.
Result<Bytes> run_guarded(std::string_view what, double limit_s, const std::function<Result<Bytes>()>& body);

}  // namespace sixfold::qnn
