// The C interface of QNN as bytes: structs, numbers and the two function tables, in our own names.
//
// Written from facts and checked live with libraries of core API 2.36 to 2.40; docs/qnn.md says which. Only
// what we use is named. LP64, natural alignment, little endian. Every struct is zeroed before it is filled:
// unions are larger than the member that is written, so their first member is the largest. All that a call is
// given is copied by it.
#pragma once

#include <cstdarg>
#include <cstddef>
#include <cstdint>

#include "sixfold/qnn/types.h"

namespace sixfold::qnn {

struct Version {
  uint32_t major = 0, minor = 0, patch = 0;
  friend auto operator<=>(const Version&, const Version&) = default;
};

namespace abi {

using ErrorCode = uint64_t;  // 0: success; the code is in the low 16 bits
using Handle = void*;        // of every object; a stale one gives an error, not a crash

enum class Encoding : uint32_t {
  scale_offset = 0,
  axis_scale_offset = 1,
  bit_width_scale_offset = 2,
  bit_width_axis_scale_offset = 3,
  block_expansion = 5,
  undefined = 0x7FFFFFFF,
};
inline constexpr uint32_t kDefined = 1, kUndefined = 0x7FFFFFFF;  // Quantize::definition

enum class LogLevel : uint32_t { error = 1, warn = 2, info = 3, verbose = 4, debug = 5 };

// ---- tensors

struct AxisScaleOffset {
  int32_t axis;
  uint32_t count;
  const ScaleOffset* channels;
};
struct BitWidthScaleOffset {
  uint32_t bits;
  float scale;
  int32_t offset;
};
struct BitWidthAxisScaleOffset {
  uint32_t bits;
  int32_t axis;
  uint32_t count;
  const float* scales;
  const int32_t* offsets;  // null: all 0
};
struct BlockExpansion {
  int32_t axis;
  const ScaleOffset* channels;
  uint32_t blocks;
  uint32_t scale_bits;
  uint32_t scale_storage;  // 0: uint8_t, 1: uint16_t
  const void* scales;
};
struct Quantize {
  uint32_t definition;
  Encoding encoding;
  union {
    uint64_t room[4];
    struct {
      float scale;
      int32_t offset;
    } all;
    AxisScaleOffset axis;
    BitWidthScaleOffset bit_width;
    BitWidthAxisScaleOffset bit_width_axis;
    const BlockExpansion* block_expansion;
  };
};
inline constexpr uint32_t kBuffer = 0, kMemory = 1;  // Tensor::memory_type
struct Buffer {
  void* data;
  uint32_t size_bytes;  // not checked by the library
};
// Memory of the client's, by a file descriptor.
enum class MemoryType : uint32_t { ion = 1, custom = 2, dma_buffer = 3 };
struct MemoryDescriptor {
  uint32_t rank;
  const uint32_t* dims;
  const char* shape_options;
  DataType dtype;
  MemoryType type;
  union {
    uint64_t room[2];
    int32_t fd;          // ion, dma_buffer
    const void* custom;  // HtpMemory
  };
};
inline constexpr uint32_t kHtpSharedBuffer = 1;
struct HtpMemory {
  uint32_t type;
  uint64_t size_bytes;  // of the whole buffer
  int32_t fd;
  uint64_t offset;  // of the tensor in it
};
// Version 1 is the front of version 2, which HTP takes too. What follows it is read of binaries that others
// made: a byte for each axis whose extent may be smaller at execute, and sparse parameters, never used.
struct Tensor {
  uint32_t version;
  struct {
    uint32_t id;
    const char* name;
    TensorKind kind;
    uint32_t format;  // 0: dense
    DataType dtype;
    Quantize quantize;
    uint32_t rank;
    const uint32_t* dims;
    uint32_t memory_type;  // 0: buffer, 1: memory
    union {
      Buffer buffer;
      Handle memory;
    };
  } v1;
  struct {
    const uint8_t* is_dynamic;  // null: none is
    uint64_t sparse[2];
  } v2;
};

// ---- ops

struct Scalar {
  DataType dtype;
  union {
    uint64_t room;
    float f32;
    uint32_t u32;
    int32_t i32;
    uint8_t boolean;
  };
};
struct Param {
  uint32_t type;  // 0: scalar, 1: tensor
  const char* name;
  union {
    Tensor tensor;
    Scalar scalar;
  };
};
struct Op {             // passed by value
  uint32_t version;     // 1; another one crashes addNode
  const char* name;     // of the node
  const char* package;  // kPackage
  const char* type;     // "Conv2d"
  uint32_t param_count;
  const Param* params;
  uint32_t input_count;
  const Tensor* inputs;
  uint32_t output_count;
  const Tensor* outputs;
};
inline constexpr const char* kPackage = "qti.aisw";  // of every op that is built in

// ---- options: lists of pointers that end with null

struct Config {     // of backend, context, graph, device and profile
  uint32_t option;  // 0: custom, the backend's own struct
  union {
    const void* custom;
    uint32_t priority;
    const char* const* names;
  };
};
inline constexpr uint32_t kContextPriority = 1, kContextEnableGraphs = 5, kContextPersistentBinary = 7,
                          kGraphPriority = 3;

// Versions of the library read the SoC at byte 4 or at byte 8, as a pointer was added to the union and
// taken out again: give it in both places.
struct HtpDeviceConfig {
  uint32_t option;  // 0: SoC
  uint32_t soc, soc_again, zero;
};

enum class HtpGraphOption : uint32_t {
  optimization = 1,
  precision = 2,
  vtcm_mb = 3,
  no_relu_folding = 4,
  no_short_conv_on_hmx = 5,
  hvx_threads = 6,
};
enum class HtpOptimization : uint32_t { level = 3, dlbc = 4, dlbc_weights = 5, slc_allocator = 7 };
struct HtpGraphConfig {
  HtpGraphOption option;
  union {
    uint64_t room[6];
    struct {
      HtpOptimization type;
      float value;
    } optimization;
    uint32_t u32;
    uint64_t u64;
    bool flag;
  };
};
enum class HtpContextOption : uint32_t { weight_sharing = 1 };
struct HtpContextConfig {
  HtpContextOption option;
  union {
    uint64_t room[2];
    bool flag;
  };
};

// ---- what comes back

struct ProfileEvent {
  uint32_t type;
  uint32_t unit;  // 1 µs, 2 bytes, 3 cycles, 4 count, 5 object
  uint64_t value;
  const char* name;
};
struct OpName {
  const char *package, *name, *target;
};

struct GraphInfo {
  uint32_t version;  // 1 to 3; each has what the one before has
  const char* name;
  uint32_t input_count;
  const Tensor* inputs;
  uint32_t output_count;
  const Tensor* outputs;
  uint32_t updatable_count;  // from version 2
  const Tensor* updatable;
  uint32_t blob_size;  // from version 3
  const void* blob;    // HtpGraphBlob
  uint32_t first_op, last_op;
};
struct HtpGraphBlob {
  uint32_t version;  // 1
  uint64_t spill_fill_bytes;
  uint32_t vtcm_bytes;
  uint32_t optimization_level;
  uint8_t dlbc;
  uint64_t hvx_threads;
};
struct BinaryInfo {
  uint32_t version;  // 3; what follows is that version's
  uint32_t padding;
  uint32_t backend_id;
  const char* build_id;
  Version core_api, backend_api;
  const char* soc_name;
  Version blob_version;
  uint64_t blob_size;
  uint32_t tensor_count;
  const Tensor* tensors;
  uint32_t graph_count;
  const GraphInfo* graphs;
  const void* platform;
  uint32_t meta_size;
  const void* meta;  // HtpContextMeta
  uint32_t soc_model;
};
struct HtpContextMeta {
  uint32_t version, dsp_arch;
};

using LogFunction = void (*)(const char* format, uint32_t level, uint64_t time, va_list arguments);
using ConfigList = const Config* const*;
using Unused = void (*)();

// The order is that of API 2.10 and later, which only appended.
struct Functions {
  Unused property_has_capability;                                                                   // 0
  ErrorCode (*backend_create)(Handle log, ConfigList, Handle* out);                                 // 1
  Unused backend_set_config;                                                                        // 2
  ErrorCode (*backend_api_version)(Version out[2]);                                                 // 3
  ErrorCode (*backend_build_id)(const char** out);                                                  // 4
  Unused backend_register_op_package;                                                               // 5
  ErrorCode (*backend_supported_ops)(Handle backend, uint32_t* count, const OpName**);              // 6
  ErrorCode (*backend_validate_op)(Handle backend, Op op);                                          // 7
  ErrorCode (*backend_free)(Handle backend);                                                        // 8
  ErrorCode (*context_create)(Handle backend, Handle device, ConfigList, Handle* out);              // 9
  Unused context_set_config;                                                                        // 10
  ErrorCode (*context_binary_size)(Handle context, uint64_t* size);                                 // 11
  ErrorCode (*context_binary)(Handle context, void* buffer, uint64_t capacity, uint64_t* written);  // 12
  ErrorCode (*context_from_binary)(Handle backend, Handle device, ConfigList, const void* bytes,
                                   uint64_t size, Handle* out, Handle profile);          // 13
  ErrorCode (*context_free)(Handle context, Handle profile);                             // 14
  ErrorCode (*graph_create)(Handle context, const char* name, ConfigList, Handle* out);  // 15
  Unused graph_create_subgraph, graph_set_config;                                        // 16, 17
  ErrorCode (*graph_add_node)(Handle graph, Op op);                                      // 18
  ErrorCode (*graph_finalize)(Handle graph, Handle profile, Handle signal);              // 19
  ErrorCode (*graph_retrieve)(Handle context, const char* name, Handle* out);            // 20
  ErrorCode (*graph_execute)(Handle graph, const Tensor* inputs, uint32_t input_count, Tensor* outputs,
                             uint32_t output_count, Handle profile, Handle signal);    // 21
  Unused graph_execute_async, tensor_create_context;                                   // 22, 23
  ErrorCode (*tensor_create_graph)(Handle graph, Tensor* tensor);                      // 24; writes the id
  ErrorCode (*log_create)(LogFunction function, uint32_t level, Handle* out);          // 25
  Unused log_set_level;                                                                // 26
  ErrorCode (*log_free)(Handle log);                                                   // 27
  ErrorCode (*profile_create)(Handle backend, uint32_t level, Handle* out);            // 28
  Unused profile_set_config;                                                           // 29
  ErrorCode (*profile_events)(Handle profile, const uint64_t** ids, uint32_t* count);  // 30
  ErrorCode (*profile_sub_events)(uint64_t event, const uint64_t** ids, uint32_t* count);  // 31
  ErrorCode (*profile_event_data)(uint64_t event, ProfileEvent* out);                      // 32
  Unused profile_extended_event_data;                                                      // 33
  ErrorCode (*profile_free)(Handle profile);                                               // 34
  ErrorCode (*memory_register)(Handle context, const MemoryDescriptor* all, uint32_t count,
                               Handle* out);                                      // 35
  ErrorCode (*memory_deregister)(const Handle* handles, uint32_t count);          // 36
  Unused device_platform_info, device_free_platform_info, device_infrastructure;  // 37 to 39
  ErrorCode (*device_create)(Handle log, ConfigList, Handle* out);                // 40
  Unused device_set_config, device_info;                                          // 41, 42
  ErrorCode (*device_free)(Handle device);                                        // 43
  Unused unused_44_to_47[4];                                                      // signals
  ErrorCode (*error_message)(ErrorCode error, const char** out);                  // 48
};

struct Provider {  // a static object of the library; only ever seen through a pointer
  uint32_t backend_id;
  const char* name;
  Version core_api, backend_api;
  Functions functions;
};
inline constexpr uint32_t kHtpBackend = 6;
using GetProviders = ErrorCode (*)(const Provider* const** list, uint32_t* count);

struct SystemFunctions {
  ErrorCode (*context_create)(Handle* out);  // 0
  ErrorCode (*context_binary_info)(Handle context, void* bytes, uint64_t size, const BinaryInfo** out,
                                   uint64_t* info_size);  // 1; only reads bytes, and keeps its own copy
  Unused context_meta_data;                               // 2
  ErrorCode (*context_free)(Handle context);              // 3
};
struct SystemProvider {
  uint32_t id;
  const char* name;
  Version api;
  SystemFunctions functions;
};
using GetSystemProviders = ErrorCode (*)(const SystemProvider* const** list, uint32_t* count);

static_assert(sizeof(ScaleOffset) == 8);  // the value type is the ABI's
static_assert(sizeof(AxisScaleOffset) == 16 && offsetof(AxisScaleOffset, channels) == 8);
static_assert(sizeof(BitWidthScaleOffset) == 12);
static_assert(sizeof(BitWidthAxisScaleOffset) == 32 && offsetof(BitWidthAxisScaleOffset, offsets) == 24);
static_assert(sizeof(BlockExpansion) == 40 && offsetof(BlockExpansion, scales) == 32);
static_assert(sizeof(Quantize) == 40 && offsetof(Quantize, all) == 8);
static_assert(sizeof(Tensor) == 144 && offsetof(Tensor, v1) == 8 && sizeof(Tensor::v1) == 112);
static_assert(offsetof(Tensor, v1.name) == 16 && offsetof(Tensor, v1.dtype) == 32);
static_assert(offsetof(Tensor, v1.quantize) == 40 && offsetof(Tensor, v1.rank) == 80);
static_assert(offsetof(Tensor, v1.dims) == 88 && offsetof(Tensor, v1.memory_type) == 96);
static_assert(offsetof(Tensor, v1.buffer) == 104 && offsetof(Tensor, v1.memory) == 104);
static_assert(sizeof(MemoryDescriptor) == 48 && offsetof(MemoryDescriptor, fd) == 32);
static_assert(sizeof(HtpMemory) == 32 && offsetof(HtpMemory, fd) == 16 && offsetof(HtpMemory, offset) == 24);
static_assert(sizeof(Scalar) == 16 && sizeof(Param) == 160 && offsetof(Param, tensor) == 16);
static_assert(sizeof(Op) == 80 && offsetof(Op, param_count) == 32 && offsetof(Op, outputs) == 72);
static_assert(sizeof(Config) == 16 && sizeof(HtpDeviceConfig) == 16);
static_assert(sizeof(HtpGraphConfig) == 56 && offsetof(HtpGraphConfig, u32) == 8);
static_assert(sizeof(HtpContextConfig) == 24 && offsetof(HtpContextConfig, flag) == 8);
static_assert(sizeof(ProfileEvent) == 24 && sizeof(OpName) == 24);
static_assert(sizeof(GraphInfo) == 88 && offsetof(GraphInfo, blob_size) == 64);
static_assert(sizeof(HtpGraphBlob) == 40 && offsetof(HtpGraphBlob, dlbc) == 24);
static_assert(sizeof(BinaryInfo) == 144 && offsetof(BinaryInfo, soc_name) == 48);
static_assert(offsetof(BinaryInfo, graphs) == 104 && offsetof(BinaryInfo, soc_model) == 136);
static_assert(offsetof(Functions, backend_validate_op) == 7 * 8 &&
              offsetof(Functions, context_free) == 14 * 8);
static_assert(offsetof(Functions, graph_execute) == 21 * 8 && offsetof(Functions, log_create) == 25 * 8);
static_assert(offsetof(Functions, profile_free) == 34 * 8 && offsetof(Functions, device_create) == 40 * 8);
static_assert(offsetof(Functions, memory_register) == 35 * 8);
static_assert(sizeof(Functions) == 49 * 8);
static_assert(offsetof(Provider, functions) == 40 && offsetof(SystemProvider, functions) == 32);

}  // namespace abi
}  // namespace sixfold::qnn
