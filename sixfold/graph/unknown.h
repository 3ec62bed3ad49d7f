// Calls that were not read: import keeps them where an audit asks for all of a model.
#pragma once

namespace sixfold {

// Attribute of such a call: why, in words.
inline constexpr const char* kUnknown = "unknown";

}  // namespace sixfold
