#include "sixfold/qnn/profile.h"

#include "sixfold/qnn/error.h"
#include "sixfold/qnn/log.h"

namespace sixfold::qnn {
namespace {

// Events are a tree of a few levels; a deeper one is the library's mistake.
constexpr int kMostLevels = 16;

Result<Event> read_event(const abi::Functions& f, uint64_t id, int levels) {
  abi::ProfileEvent data{};
  if (const abi::ErrorCode e = f.profile_event_data(id, &data); e != 0)
    return device_error("profileGetEventData", e);
  Event out{data.type, static_cast<EventUnit>(data.unit), data.value, data.name ? data.name : "", {}};
  const uint64_t* ids = nullptr;
  uint32_t count = 0;
  if (levels == 0) return out;
  if (const abi::ErrorCode e = f.profile_sub_events(id, &ids, &count); e != 0)
    return device_error("profileGetSubEvents", e);
  for (uint32_t i = 0; ids && i < count; ++i) {
    SF_ASSIGN(Event part, read_event(f, ids[i], levels - 1));
    out.parts.push_back(std::move(part));
  }
  return out;
}

}  // namespace

std::string_view to_text(EventUnit unit) {
  switch (unit) {
    case EventUnit::microseconds:
      return "us";
    case EventUnit::bytes:
      return "bytes";
    case EventUnit::cycles:
      return "cycles";
    case EventUnit::count:
      return "count";
    case EventUnit::object:
      return "object";
    default:
      return "";
  }
}

Result<Profile> Profile::create(const Backend& backend, ProfileLevel level) {
  const abi::Functions& f = backend.functions();
  const LogCapture log;
  const LibraryTimer timer;
  abi::Handle handle = nullptr;
  if (const abi::ErrorCode e = f.profile_create(backend.handle(), static_cast<uint32_t>(level), &handle);
      e != 0)
    return device_error("profileCreate", e, log.reason());
  Profile out;
  out.functions_ = &f;
  out.handle_ = {f, handle};
  return out;
}

Result<std::vector<Event>> Profile::events() const {
  const LibraryTimer timer;
  const uint64_t* ids = nullptr;
  uint32_t count = 0;
  if (const abi::ErrorCode e = functions_->profile_events(handle(), &ids, &count); e != 0)
    return device_error("profileGetEvents", e);
  std::vector<Event> out;
  for (uint32_t i = 0; ids && i < count; ++i) {
    SF_ASSIGN(Event event, read_event(*functions_, ids[i], kMostLevels));
    out.push_back(std::move(event));
  }
  return out;
}

}  // namespace sixfold::qnn
