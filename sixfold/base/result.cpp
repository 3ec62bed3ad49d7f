#include "sixfold/base/result.h"

#include <cstdarg>

namespace sixfold {

Error::Error(Code code, std::string message) : info_(new Info{code, std::move(message)}) {}

Error Error::during(std::string_view what) && {
  info_->message += cat(" (while ", what, ")");
  return std::move(*this);
}

void Error::Free::operator()(Info* info) const { delete info; }

Error text::error(Code code, const char* kinds, ...) {
  va_list parts;
  va_start(parts, kinds);
  Error out(code, join_list(kinds, parts));
  va_end(parts);
  return out;
}

std::string_view code_name(Code code) {
  switch (code) {
    case Code::InvalidArgument:
      return "invalid argument";
    case Code::InvalidModel:
      return "invalid model";
    case Code::Unsupported:
      return "unsupported";
    case Code::NotFound:
      return "not found";
    case Code::OutOfMemory:
      return "out of memory";
    case Code::Device:
      return "device error";
    case Code::Internal:
      return "internal error";
  }
  return "error";
}

}  // namespace sixfold
