// Profile events as values.
#pragma once

#include <string>
#include <vector>

#include "sixfold/qnn/backend.h"

namespace sixfold::qnn {

enum class ProfileLevel : uint32_t { off = 0, basic = 1, detailed = 2, linting = 7001 };
enum class EventUnit : uint32_t { none = 0, microseconds = 1, bytes = 2, cycles = 3, count = 4, object = 5 };

struct Event {
  uint32_t type = 0;  // the API's number: 300 finalize, 400 execute, 3004 accelerator, 404 one op, ...
  EventUnit unit = EventUnit::none;
  uint64_t value = 0;
  std::string name;
  std::vector<Event> parts;
};
std::string_view to_text(EventUnit unit);  // "us"

// What one call (build, load, execute) did. One serves any number of calls, one after the other.
class Profile {
 public:
  // level is not off. The backend must outlive it.
  static Result<Profile> create(const Backend& backend, ProfileLevel level);

  Result<std::vector<Event>> events() const;  // of the last call
  abi::Handle handle() const { return handle_.get(); }

 private:
  const abi::Functions* functions_ = nullptr;
  ProfileHandle handle_;
};

}  // namespace sixfold::qnn
