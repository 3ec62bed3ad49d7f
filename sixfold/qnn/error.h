// Error codes of the QNN API, in words.
#pragma once

#include <string>
#include <string_view>

#include "sixfold/base/result.h"
#include "sixfold/qnn/abi.h"

namespace sixfold::qnn {

inline uint32_t code_of(abi::ErrorCode error) { return static_cast<uint32_t>(error & 0xFFFF); }

// "graph handle is not valid"; for a code without a name of its own that of its range: "graph error".
std::string_view error_name(uint32_t code);

// Of code Device: "QNN graphFinalize failed with 1002 (...): what the library logged". log may be empty.
Error device_error(std::string_view call, abi::ErrorCode error, std::string_view log = {});

}  // namespace sixfold::qnn
