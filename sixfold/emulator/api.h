// The functions of the provider, by area. Slots that abi.h has no type for are declared as the API has them.
#pragma once

#include "sixfold/emulator/objects.h"

namespace sixfold::emulator::api {

using abi::ConfigList;
using abi::ErrorCode;
using abi::Handle;

// Codes of the API that are given here.
inline constexpr ErrorCode kOk = 0, kNotSupported = 1000, kMemory = 1002, kArgument = 1004,
                           kNotPermitted = 1005, kPropertyNo = 1000, kPropertyUnknown = 2000,
                           kOpInvalid = 3110, kBackendArgument = 4000, kBackendHandle = 4001,
                           kNoSuchOp = 4005, kContextArgument = 5000, kContextHandle = 5002,
                           kContextNotFinalized = 5003, kContextBinary = 5005, kContextConfig = 5010,
                           kGraphArgument = 6000, kGraphHandle = 6001, kGraphName = 6003, kGraphTensor = 6004,
                           kGraphOp = 6005, kGraphUnconnected = 6007, kGraphFinalize = 6022,
                           kGraphNotFinalized = 6023, kGraphFinalized = 6024, kTensorHandle = 7001,
                           kTensorExists = 7003, kTensorParameter = 7004, kErrorUnknown = 10001,
                           kMemoryArgument = 8000, kMemoryHandle = 8001, kMemoryMapping = 8003,
                           kMemoryShape = 8004, kMemoryType = 8005, kLogArgument = 11000, kLogHandle = 11002,
                           kProfileArgument = 12000, kProfileHandle = 12002, kDeviceConfig = 14001,
                           kDeviceHandle = 14003, kSystemArgument = 30001, kSystemMalformed = 30010;

// property, backend, log, error
ErrorCode property_has_capability(uint32_t key);
ErrorCode backend_create(Handle log, ConfigList configs, Handle* out);
ErrorCode backend_set_config(Handle backend, ConfigList configs);
ErrorCode backend_api_version(qnn::Version out[2]);
ErrorCode backend_build_id(const char** out);
ErrorCode backend_register_op_package(Handle backend, const char* path, const char* provider,
                                      const char* target);
ErrorCode backend_supported_ops(Handle backend, uint32_t* count, const abi::OpName** out);
ErrorCode backend_validate_op(Handle backend, abi::Op op);
ErrorCode backend_free(Handle backend);
ErrorCode backend_property(Handle backend, void** query);
ErrorCode log_create(abi::LogFunction function, uint32_t level, Handle* out);
ErrorCode log_set_level(Handle log, uint32_t level);
ErrorCode log_free(Handle log);
ErrorCode error_message(ErrorCode error, const char** out);
ErrorCode error_verbose_message(ErrorCode error, const char** out);
ErrorCode error_free_message(const char* message);

// device
ErrorCode device_platform_info(Handle log, const void** out);
ErrorCode device_free_platform_info(Handle log, const void* info);
ErrorCode device_infrastructure(const void** out);
ErrorCode device_create(Handle log, ConfigList configs, Handle* out);
ErrorCode device_set_config(Handle device, ConfigList configs);
ErrorCode device_info(Handle device, const void** out);
ErrorCode device_free(Handle device);

// context
ErrorCode context_create(Handle backend, Handle device, ConfigList configs, Handle* out);
ErrorCode context_set_config(Handle context, ConfigList configs);
ErrorCode context_binary_size(Handle context, uint64_t* size);
ErrorCode context_binary(Handle context, void* buffer, uint64_t capacity, uint64_t* written);
ErrorCode context_from_binary(Handle backend, Handle device, ConfigList configs, const void* bytes,
                              uint64_t size, Handle* out, Handle profile);
ErrorCode context_validate_binary(Handle backend, Handle device, ConfigList configs, const void* bytes,
                                  uint64_t size);
ErrorCode context_free(Handle context, Handle profile);

// graph, tensor
ErrorCode graph_create(Handle context, const char* name, ConfigList configs, Handle* out);
ErrorCode graph_set_config(Handle graph, ConfigList configs);
ErrorCode graph_add_node(Handle graph, abi::Op op);
ErrorCode graph_finalize(Handle graph, Handle profile, Handle signal);
ErrorCode graph_retrieve(Handle context, const char* name, Handle* out);
ErrorCode graph_execute(Handle graph, const abi::Tensor* inputs, uint32_t input_count, abi::Tensor* outputs,
                        uint32_t output_count, Handle profile, Handle signal);
ErrorCode tensor_create_graph(Handle graph, abi::Tensor* tensor);

// memory
ErrorCode memory_register(Handle context, const abi::MemoryDescriptor* all, uint32_t count, Handle* out);
ErrorCode memory_deregister(const Handle* handles, uint32_t count);

// profile
ErrorCode profile_create(Handle backend, uint32_t level, Handle* out);
ErrorCode profile_set_config(Handle profile, ConfigList configs);
ErrorCode profile_events(Handle profile, const uint64_t** ids, uint32_t* count);
ErrorCode profile_sub_events(uint64_t event, const uint64_t** ids, uint32_t* count);
ErrorCode profile_event_data(uint64_t event, abi::ProfileEvent* out);
ErrorCode profile_extended_event_data(uint64_t event, void* out);
ErrorCode profile_free(Handle profile);

// What other areas write into a profile.
void report(Handle profile, uint32_t type, uint64_t microseconds, std::string_view name);

inline constexpr const char* kBuildId = "v2.49.40.1_sixfold";
inline constexpr qnn::Version kCoreApi{2, 40, 0}, kHtpApi{5, 51, 0}, kSystemApi{1, 15, 0},
    kBlobVersion{1, 0, 0};

}  // namespace sixfold::emulator::api
