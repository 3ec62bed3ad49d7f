// Where a node came from: the user's line and module, out of the node's metadata strings.
#pragma once

#include <string>
#include <string_view>

namespace sixfold {

// The innermost frame of a Python traceback that is not torch's own: "model.py:12 in forward: return
// self.conv(x)".
std::string user_line(std::string_view stack_trace);

// The path of the last entry of "key,path,type;key,path,type": "features.0.conv".
std::string module_path(std::string_view nn_module_stack);

}  // namespace sixfold
