#include "sixfold/emulator/api.h"
#include "sixfold/emulator/api_system.h"
#include "sixfold/emulator/emulator.h"

namespace sixfold::emulator {
namespace {

using abi::ErrorCode;
using abi::Unused;

// Slots of functions that are not here: whatever the arguments, the answer is the same. Callers clean up
// their own arguments in the calling conventions of the platforms that QNN has.
ErrorCode not_supported() { return api::kNotSupported; }

template <typename Function>
Unused slot(Function* function) {
  return reinterpret_cast<Unused>(function);
}

// The table of API 2.39 and 2.40; earlier ones are its front.
constexpr size_t kSlots = 75, kNamed = sizeof(abi::Functions) / sizeof(Unused);
struct FullProvider {
  abi::Provider front;
  Unused rest[kSlots - kNamed];
};
static_assert(offsetof(FullProvider, rest) == sizeof(abi::Provider));

abi::Functions functions() {
  abi::Functions f{};
  f.property_has_capability = slot(api::property_has_capability);
  f.backend_create = api::backend_create;
  f.backend_set_config = slot(api::backend_set_config);
  f.backend_api_version = api::backend_api_version;
  f.backend_build_id = api::backend_build_id;
  f.backend_register_op_package = slot(api::backend_register_op_package);
  f.backend_supported_ops = api::backend_supported_ops;
  f.backend_validate_op = api::backend_validate_op;
  f.backend_free = api::backend_free;
  f.context_create = api::context_create;
  f.context_set_config = slot(api::context_set_config);
  f.context_binary_size = api::context_binary_size;
  f.context_binary = api::context_binary;
  f.context_from_binary = api::context_from_binary;
  f.context_free = api::context_free;
  f.graph_create = api::graph_create;
  f.graph_create_subgraph = slot(not_supported);
  f.graph_set_config = slot(api::graph_set_config);
  f.graph_add_node = api::graph_add_node;
  f.graph_finalize = api::graph_finalize;
  f.graph_retrieve = api::graph_retrieve;
  f.graph_execute = api::graph_execute;
  f.graph_execute_async = slot(not_supported);
  f.tensor_create_context = slot(not_supported);
  f.tensor_create_graph = api::tensor_create_graph;
  f.log_create = api::log_create;
  f.log_set_level = slot(api::log_set_level);
  f.log_free = api::log_free;
  f.profile_create = api::profile_create;
  f.profile_set_config = slot(api::profile_set_config);
  f.profile_events = api::profile_events;
  f.profile_sub_events = api::profile_sub_events;
  f.profile_event_data = api::profile_event_data;
  f.profile_extended_event_data = slot(api::profile_extended_event_data);
  f.profile_free = api::profile_free;
  f.memory_register = api::memory_register;
  f.memory_deregister = api::memory_deregister;
  f.device_platform_info = slot(api::device_platform_info);
  f.device_free_platform_info = slot(api::device_free_platform_info);
  f.device_infrastructure = slot(api::device_infrastructure);
  f.device_create = api::device_create;
  f.device_set_config = slot(api::device_set_config);
  f.device_info = slot(api::device_info);
  f.device_free = api::device_free;
  for (Unused& signal : f.unused_44_to_47) signal = slot(not_supported);
  f.error_message = api::error_message;
  return f;
}

FullProvider make_provider() {
  FullProvider out{};
  out.front.backend_id = abi::kHtpBackend;
  out.front.name = "HTP_QTI_AISW";
  out.front.core_api = api::kCoreApi;
  out.front.backend_api = api::kHtpApi;
  out.front.functions = functions();
  for (Unused& f : out.rest) f = slot(not_supported);
  const auto at = [&out](size_t index) -> Unused& { return out.rest[index - kNamed]; };
  at(49) = slot(api::error_verbose_message);
  at(50) = slot(api::error_free_message);
  at(54) = slot(api::context_validate_binary);
  at(62) = slot(api::backend_property);
  return out;
}

struct FullSystemProvider {
  abi::SystemProvider front;
  Unused rest[12];
};
static_assert(offsetof(FullSystemProvider, rest) == sizeof(abi::SystemProvider));

FullSystemProvider make_system_provider() {
  FullSystemProvider out{};
  out.front.id = 0;
  out.front.name = "SYSTEM_QTI_AISW";
  out.front.api = api::kSystemApi;
  out.front.functions = {api::system_context_create, api::system_binary_info, slot(api::system_meta_data),
                         api::system_context_free};
  for (Unused& f : out.rest) f = slot(not_supported);
  out.rest[0] = slot(api::system_tensor_footprint);
  out.rest[9] = slot(api::system_profile_create);
  out.rest[10] = slot(api::system_profile_serialize);
  out.rest[11] = slot(api::system_profile_free);
  return out;
}

}  // namespace

const abi::Provider* const* providers(uint32_t* count) {
  static const FullProvider provider = make_provider();
  static const abi::Provider* const list[] = {&provider.front};
  *count = 1;
  return list;
}

const abi::SystemProvider* const* system_providers(uint32_t* count) {
  static const FullSystemProvider provider = make_system_provider();
  static const abi::SystemProvider* const list[] = {&provider.front};
  *count = 1;
  return list;
}

qnn::Library library() {
  uint32_t count = 0;
  return {kEngineName, providers(&count)[0], api::kBuildId};
}

qnn::SystemLibrary system_library() {
  uint32_t count = 0;
  return {kEngineName, system_providers(&count)[0]};
}

}  // namespace sixfold::emulator
