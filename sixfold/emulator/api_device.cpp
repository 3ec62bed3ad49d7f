#include <cstring>

#include "sixfold/emulator/api.h"
#include "sixfold/qnn/soc.h"

namespace sixfold::emulator::api {
namespace {

constexpr uint32_t kDefaultSoc = 30;  // what the vendor's library takes when nothing is said
constexpr size_t kMostConfigs = 1024;

DeviceModel model_of(const qnn::Soc& soc) { return {soc.id, soc.htp_arch, soc.vtcm_mb ? soc.vtcm_mb : 4}; }

// A custom option has its payload at byte 4 or at byte 8, by the version of the client's headers; the number
// that is a chip's is the right one.
Status read_custom(const void* custom, DeviceModel& model, bool& has_soc) {
  if (!custom) return invalid_argument("a device option has no content");
  uint32_t words[3];
  std::memcpy(words, custom, sizeof words);
  const auto known_arch = [](uint32_t arch) { return arch >= 68 && arch <= 89; };
  switch (words[0]) {
    case 0:
      for (const uint32_t id : {words[1], words[2]})
        if (const qnn::Soc* soc = qnn::find_soc(id)) {
          model = model_of(*soc);
          has_soc = true;
          return {};
        }
      return invalid_argument("SoC ", words[1], " is not known");
    case 1:  // the HTP version: only where no chip is named
      if (!has_soc && known_arch(words[2])) model.arch = words[2];
      return {};
    default:  // protection domains and such have no meaning here
      return {};
  }
}

Result<DeviceModel> read_configs(ConfigList configs, DeviceModel model) {
  bool has_soc = false;
  for (size_t i = 0; configs && configs[i]; ++i) {
    if (i >= kMostConfigs) return invalid_argument("a list of options does not end");
    if (configs[i]->option == 0) SF_TRY(read_custom(configs[i]->custom, model, has_soc));
  }
  return model;
}

// ---- what a device says of itself

struct Extension {
  uint32_t type;
  uint64_t vtcm_mb;
  uint32_t soc;
  uint8_t signed_pd, dlbc;
  uint32_t arch;
};
struct Core {
  uint32_t version, padding, id, type;
  const void* extension;
};
struct Hardware {
  uint32_t version, padding, id, type, core_count, padding2;
  const Core* cores;
  const Extension* extension;
};
struct Platform {
  uint32_t version, padding, device_count, padding2;
  const Hardware* devices;
};
static_assert(sizeof(Extension) == 32 && offsetof(Extension, soc) == 16 && offsetof(Extension, arch) == 24);
static_assert(sizeof(Core) == 24 && sizeof(Hardware) == 40 && offsetof(Hardware, cores) == 24);
static_assert(sizeof(Platform) == 24 && offsetof(Platform, devices) == 16);

struct Info {
  Extension extension{};
  Core core{};
  Hardware hardware{};
  Platform platform{};
};

// One for each chip that was asked for; they stay, as clients keep pointers to them.
const Platform* platform_of(const DeviceModel& model) {
  static std::mutex mutex;
  static auto* infos = new std::map<std::pair<uint32_t, uint32_t>, std::unique_ptr<Info>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Info>& info = (*infos)[{model.soc, model.arch}];
  if (!info) {
    info = std::make_unique<Info>();
    info->extension = {0, model.vtcm_mb, model.soc, 1, 1, model.arch};
    info->core = {1, 0, 0, 0, nullptr};
    info->hardware = {1, 0, 0, 0, 1, 0, &info->core, &info->extension};
    info->platform = {1, 0, 1, 0, &info->hardware};
  }
  return &info->platform;
}

// ---- power settings, which mean nothing here

struct Infrastructure {
  uint64_t type;
  ErrorCode (*create_power_config)(uint32_t device, uint32_t core, uint32_t* id);
  ErrorCode (*destroy_power_config)(uint32_t id);
  ErrorCode (*set_power_config)(uint32_t id, const void* const* configs);
  ErrorCode (*set_memory_config)(uint32_t device, uint32_t core, const void* const* configs);
};
constexpr Infrastructure kInfrastructure{
    0,
    [](uint32_t, uint32_t, uint32_t* id) -> ErrorCode {
      if (!id) return kArgument;
      *id = 1;
      return kOk;
    },
    [](uint32_t) -> ErrorCode { return kOk; }, [](uint32_t, const void* const*) -> ErrorCode { return kOk; },
    [](uint32_t, uint32_t, const void* const*) -> ErrorCode { return kOk; }};

}  // namespace

ErrorCode device_platform_info(Handle log, const void** out) {
  if (!out) return kArgument;
  if (log && !objects().logs.find(log)) return kLogHandle;
  const std::lock_guard lock(objects().mutex);
  *out = platform_of(objects().last_device);
  return kOk;
}
ErrorCode device_free_platform_info(Handle, const void*) { return kOk; }

ErrorCode device_infrastructure(const void** out) {
  if (!out) return kArgument;
  *out = &kInfrastructure;
  return kOk;
}

ErrorCode device_create(Handle log, ConfigList configs, Handle* out) {
  if (!out) return kArgument;
  std::shared_ptr<LogObject> sink;
  if (log && !(sink = objects().logs.find(log))) return kLogHandle;
  Result<DeviceModel> model = read_configs(configs, model_of(*qnn::find_soc(kDefaultSoc)));
  if (!model.ok()) return refuse(sink.get(), kDeviceConfig, model.error());
  auto device = std::make_shared<DeviceObject>();
  device->model = *model;
  {
    const std::lock_guard lock(objects().mutex);
    objects().last_device = *model;
  }
  *out = objects().devices.add(std::move(device));
  return kOk;
}

ErrorCode device_set_config(Handle handle, ConfigList configs) {
  const auto device = objects().devices.find(handle);
  if (!device) return kDeviceHandle;
  const std::lock_guard lock(objects().mutex);
  const Result<DeviceModel> model = read_configs(configs, device->model);
  if (!model.ok()) return kDeviceConfig;
  device->model = objects().last_device = *model;
  return kOk;
}

ErrorCode device_info(Handle handle, const void** out) {
  const auto device = objects().devices.find(handle);
  if (!device) return kDeviceHandle;
  if (!out) return kArgument;
  const std::lock_guard lock(objects().mutex);
  *out = platform_of(device->model);
  return kOk;
}

ErrorCode device_free(Handle device) { return objects().devices.remove(device) ? kOk : kDeviceHandle; }

}  // namespace sixfold::emulator::api
