#include <algorithm>

#include "sixfold/emulator/api.h"
#include "sixfold/emulator/op_table.h"
#include "sixfold/emulator/read_abi.h"
#include "sixfold/qnn/error.h"

namespace sixfold::emulator::api {
namespace {

// Lists end with null; a client that forgets it would have us run away.
constexpr size_t kMostConfigs = 1024;

Status validate(const abi::Op& op, const DeviceModel& device) {
  SF_ASSIGN(const OpDef def,
            read_op_params(op, [](std::string name, const abi::Tensor& t) -> Result<ParamDef> {
              SF_ASSIGN(const TensorDef tensor, read_tensor(t, /*with_data=*/false));
              return param_of(std::move(name), tensor);
            }));
  std::vector<TensorDef> tensors;
  for (uint32_t i = 0; i < op.input_count + op.output_count; ++i) {
    const abi::Tensor& t = i < op.input_count ? op.inputs[i] : op.outputs[i - op.input_count];
    SF_ASSIGN(TensorDef tensor, read_tensor(t, /*with_data=*/false));
    tensors.push_back(std::move(tensor));
  }
  std::vector<const TensorDef*> operands;
  for (const TensorDef& t : tensors) operands.push_back(&t);
  const std::span<const TensorDef* const> all(operands);
  return validate_op({def.name, def.type, all.first(op.input_count), all.subspan(op.input_count), def.params},
                     device);
}

}  // namespace

// Keys that the vendor's library on a host knows, and whether it says yes. Where it says so and refuses the
// calls (memory 1101 to 1103, signals 308 and 1201 to 1203), so that clients have to try, no is said here.
ErrorCode property_has_capability(uint32_t key) {
  static constexpr uint16_t kYes[] = {106,  107,  202,  205,  206,  207,  208,  209, 210, 211,  213,
                                      214,  218,  219,  221,  222,  302,  306,  311, 312, 313,  322,
                                      323,  402,  403,  404,  501,  505,  506,  507, 508, 1101, 1102,
                                      1103, 1301, 1302, 1401, 1404, 1405, 1501, 1502};
  static constexpr uint16_t kNo[] = {105, 108,  212,  215,  216,  217,  220,  303,  304,  305,  307,  308,
                                     309, 310,  314,  315,  316,  317,  318,  319,  320,  321,  401,  502,
                                     503, 504,  517,  518,  519,  520,  521,  522,  523,  524,  525,  526,
                                     527, 1001, 1002, 1104, 1105, 1201, 1202, 1203, 1402, 1403, 2001, 2002};
  if (std::find(std::begin(kYes), std::end(kYes), key) != std::end(kYes)) return kOk;
  return std::find(std::begin(kNo), std::end(kNo), key) != std::end(kNo) ? kPropertyNo : kPropertyUnknown;
}

ErrorCode backend_create(Handle log, ConfigList configs, Handle* out) {
  if (!out) return kBackendArgument;
  for (size_t i = 0; configs && configs[i]; ++i)
    if (i >= kMostConfigs) return kBackendArgument;
  auto backend = std::make_shared<BackendObject>();
  if (log && !(backend->log = objects().logs.find(log))) return kBackendArgument;
  *out = objects().backends.add(std::move(backend));
  return kOk;
}

ErrorCode backend_set_config(Handle backend, ConfigList) {
  return objects().backends.find(backend) ? kOk : kBackendHandle;
}

ErrorCode backend_api_version(qnn::Version out[2]) {
  if (!out) return kBackendArgument;
  out[0] = kCoreApi;
  out[1] = kHtpApi;
  return kOk;
}

ErrorCode backend_build_id(const char** out) {
  if (!out) return kBackendArgument;
  *out = kBuildId;
  return kOk;
}

ErrorCode backend_register_op_package(Handle backend, const char*, const char*, const char*) {
  const auto object = objects().backends.find(backend);
  if (!object) return kBackendHandle;
  return refuse(object->log.get(), kNotSupported, unsupported("the emulator takes no op packages"));
}

ErrorCode backend_supported_ops(Handle backend, uint32_t* count, const abi::OpName** out) {
  if (!objects().backends.find(backend)) return kBackendHandle;
  if (!count || !out) return kBackendArgument;
  static const auto* names = [] {
    auto* list = new std::vector<abi::OpName>;
    for (const OpEntry& op : op_table())
      if (op.prepare) list->push_back({abi::kPackage, op.type, nullptr});
    return list;
  }();
  *count = static_cast<uint32_t>(names->size());
  *out = names->data();
  return kOk;
}

ErrorCode backend_validate_op(Handle backend, abi::Op op) {
  const auto object = objects().backends.find(backend);
  if (!object) return kBackendHandle;
  LogObject* const log = object->log.get();
  if (Status s = check_form(op); !s.ok()) return refuse(log, kNoSuchOp, s.error());
  if (std::string_view(op.package) != abi::kPackage)
    return refuse(log, kNoSuchOp, unsupported("there is no op package ", op.package));
  if (!find_op(op.type)) return refuse(log, kNoSuchOp, unsupported("HTP has no op ", op.type));
  DeviceModel device;
  {
    const std::lock_guard lock(objects().mutex);
    device = objects().last_device;
  }
  if (Status s = validate(op, device); !s.ok()) return refuse(log, kOpInvalid, s.error());
  return kOk;
}

ErrorCode backend_free(Handle backend) {
  const auto object = objects().backends.remove(backend);
  if (!object) return kBackendHandle;
  object->is_alive = false;
  return kOk;
}

ErrorCode backend_property(Handle backend, void**) {
  return objects().backends.find(backend) ? 4003 : kBackendHandle;
}

ErrorCode log_create(abi::LogFunction function, uint32_t level, Handle* out) {
  if (!out || level < 1 || level > 5) return kLogArgument;
  auto log = std::make_shared<LogObject>();
  log->function = function;
  log->level = level;
  *out = objects().logs.add(std::move(log));
  return kOk;
}

ErrorCode log_set_level(Handle handle, uint32_t level) {
  const auto log = objects().logs.find(handle);
  if (!log) return kLogHandle;
  if (level < 1 || level > 5) return kLogArgument;
  log->level = level;
  return kOk;
}

ErrorCode log_free(Handle log) { return objects().logs.remove(log) ? kOk : kLogHandle; }

ErrorCode error_message(ErrorCode error, const char** out) {
  if (!out) return kErrorUnknown;
  const auto code = static_cast<uint32_t>(error & 0xFFFF);
  static std::mutex mutex;
  static auto* texts = new std::map<uint32_t, std::string>;
  const std::lock_guard lock(mutex);
  auto at = texts->find(code);
  if (at == texts->end()) {
    const std::string name(qnn::error_name(code));
    if (name.empty()) return kErrorUnknown;
    at = texts->emplace(code, name).first;
  }
  *out = at->second.c_str();
  return kOk;
}

ErrorCode error_verbose_message(ErrorCode, const char**) { return kNotSupported; }
ErrorCode error_free_message(const char*) { return kNotSupported; }

}  // namespace sixfold::emulator::api
