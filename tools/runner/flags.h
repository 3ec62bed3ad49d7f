// Flags as gflags reads them, which scripts written for ExecuTorch's runner use: --name=value, --name value,
// -name,
// --bool, --nobool.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sixfold/base/result.h"

namespace sixfold::tools {

struct Flag {
  std::string_view name;
  std::variant<std::string*, int64_t*, bool*> value;  // with its default in place
  std::string_view meaning;
  bool given = false;
};

// Sets the values; an unknown name, a missing or a wrong value is an error that names the flag.
Status parse_flags(int argc, const char* const* argv, std::vector<Flag>& flags);
// One line for each flag with its default.
std::string describe_flags(const std::vector<Flag>& flags);

}  // namespace sixfold::tools
