#include <cstring>

#include "sixfold/emulator/api.h"

namespace sixfold::emulator::api {
namespace {

std::shared_ptr<ProfileObject> profile_of(uint64_t event) {
  return objects().profiles.find(reinterpret_cast<Handle>(event >> 24));
}

// Null when the event is of an earlier call, or none at all. The profile's lock is held.
const EventData* find_event(const ProfileObject& profile, uint64_t event) {
  const size_t index = event & 0xFFFFFF;
  return index < profile.events.size() ? &profile.events[index] : nullptr;
}

struct ExtendedEvent {
  uint32_t version, padding, type, unit;
  abi::Scalar value;
  uint64_t room, time;
  const char* name;
};
static_assert(sizeof(ExtendedEvent) == 56 && offsetof(ExtendedEvent, time) == 40);

}  // namespace

void report(Handle handle, uint32_t type, uint64_t microseconds, std::string_view name) {
  const auto profile = objects().profiles.find(handle);
  if (!profile) return;
  const std::lock_guard lock(profile->mutex);
  profile->begin();
  profile->add(type, 1, microseconds, name);
}

ErrorCode profile_create(Handle backend, uint32_t level, Handle* out) {
  if (!objects().backends.find(backend)) return kBackendHandle;
  if (!out || (level != 1 && level != 2 && level != 7001)) return kProfileArgument;
  auto profile = std::make_shared<ProfileObject>();
  profile->level = level;
  const Handle handle = objects().profiles.add(profile);
  profile->id = reinterpret_cast<uint64_t>(handle);
  *out = handle;
  return kOk;
}

ErrorCode profile_set_config(Handle profile, ConfigList) {
  return objects().profiles.find(profile) ? kOk : kProfileHandle;
}

ErrorCode profile_events(Handle handle, const uint64_t** ids, uint32_t* count) {
  const auto profile = objects().profiles.find(handle);
  if (!profile) return kProfileHandle;
  if (!ids || !count) return kProfileArgument;
  const std::lock_guard lock(profile->mutex);
  *ids = profile->roots.data();
  *count = static_cast<uint32_t>(profile->roots.size());
  return kOk;
}

ErrorCode profile_sub_events(uint64_t event, const uint64_t** ids, uint32_t* count) {
  const auto profile = profile_of(event);
  if (!profile) return kProfileHandle;
  if (!ids || !count) return kProfileArgument;
  const std::lock_guard lock(profile->mutex);
  const EventData* data = find_event(*profile, event);
  if (!data) return kProfileArgument;
  *ids = data->parts.data();
  *count = static_cast<uint32_t>(data->parts.size());
  return kOk;
}

ErrorCode profile_event_data(uint64_t event, abi::ProfileEvent* out) {
  const auto profile = profile_of(event);
  if (!profile) return kProfileHandle;
  if (!out) return kProfileArgument;
  const std::lock_guard lock(profile->mutex);
  const EventData* data = find_event(*profile, event);
  if (!data) return kProfileArgument;
  *out = {data->type, data->unit, data->value, data->name};
  return kOk;
}

ErrorCode profile_extended_event_data(uint64_t event, void* out) {
  const auto profile = profile_of(event);
  if (!profile) return kProfileHandle;
  if (!out) return kProfileArgument;
  const std::lock_guard lock(profile->mutex);
  const EventData* data = find_event(*profile, event);
  if (!data) return kProfileArgument;
  ExtendedEvent extended{};
  extended.version = 1;
  extended.type = data->type;
  extended.unit = data->unit;
  extended.value.dtype = DataType::u64;
  extended.value.room = data->value;
  extended.time = data->time_us;
  extended.name = data->name;
  std::memcpy(out, &extended, sizeof extended);
  return kOk;
}

ErrorCode profile_free(Handle profile) { return objects().profiles.remove(profile) ? kOk : kProfileHandle; }

}  // namespace sixfold::emulator::api
