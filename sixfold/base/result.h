// Errors are values. A function that can fail returns Status (no payload) or Result<T>.
//
// Status is one pointer: null means success, so passing it through a hot loop costs nothing. The message is
// one clear sentence; callers add a "while ..." line for each level with Error::during().
#pragma once

#include <cassert>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "sixfold/base/cat.h"

namespace sixfold {

enum class Code : uint8_t {
  InvalidArgument,  // the call is wrong: fix the call
  InvalidModel,     // the bytes are wrong: reject the file
  Unsupported,      // right, but not for this target: fall back, and report the reason
  NotFound,         // file, library or symbol
  OutOfMemory,
  Device,    // QNN returned an error
  Internal,  // our bug
};
std::string_view code_name(Code code);

class Error {
 public:
  Error(Code code, std::string message);

  Code code() const { return info_->code; }
  const std::string& message() const { return info_->message; }

  // Adds where it happened, outermost last: "weights end early (while reading fc.weight)".
  Error during(std::string_view what) &&;

 private:
  friend class Status;
  struct Info {
    Code code;
    std::string message;
  };
  struct Free {  // not inlined at the end of every scope that has a Status
    void operator()(Info* info) const;
  };
  Error() = default;
  std::unique_ptr<Info, Free> info_;
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return error_.info_ == nullptr; }
  const Error& error() const { return error_; }
  Error take_error() { return std::move(error_); }

 private:
  Error error_;
};
inline Status ok_status() { return {}; }

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}       // NOLINT(google-explicit-constructor)
  Result(Error error) : status_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }
  const Error& error() const { return status_.error(); }
  Error take_error() { return status_.take_error(); }

  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

namespace text {
[[gnu::cold]] Error error(Code code, const char* kinds, ...);  // with what join makes of the parts
}

// fail(Code::InvalidModel, "node ", name, " has ", n, " inputs, expected 2")
template <typename... Parts>
[[gnu::always_inline]] inline Error fail(Code code, const Parts&... parts) {
  return text::error(code, text::kKinds<Parts...>, text::passed(parts)...);
}
template <typename... Parts>
[[gnu::always_inline]] inline Error invalid_model(const Parts&... parts) {
  return fail(Code::InvalidModel, parts...);
}
template <typename... Parts>
[[gnu::always_inline]] inline Error invalid_argument(const Parts&... parts) {
  return fail(Code::InvalidArgument, parts...);
}
template <typename... Parts>
[[gnu::always_inline]] inline Error unsupported(const Parts&... parts) {
  return fail(Code::Unsupported, parts...);
}

#define SF_CONCAT_(a, b) a##b
#define SF_CONCAT(a, b) SF_CONCAT_(a, b)

// SF_TRY(expr): returns from the function if the Status or Result is an error.
#define SF_TRY(expr)                                       \
  do {                                                     \
    if (auto sf_try_ = (expr); !sf_try_.ok()) [[unlikely]] \
      return sf_try_.take_error();                         \
  } while (false)

// SF_ASSIGN(auto x, expr): x is the value, or the error is returned.
#define SF_ASSIGN(target, expr) SF_ASSIGN_(SF_CONCAT(sf_result_, __LINE__), target, expr)
#define SF_ASSIGN_(tmp, target, expr) \
  auto tmp = (expr);                  \
  if (!tmp.ok()) [[unlikely]]         \
    return tmp.take_error();          \
  target = std::move(tmp).value()

}  // namespace sixfold
