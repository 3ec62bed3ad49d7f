// For tests: a provider of the QNN API that computes nothing, counts what lives, and fails when told to.
#pragma once

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "sixfold/qnn/library.h"

namespace sixfold::qnn::fake {

struct State {
  int calls = 0;
  int fail_at = 0;  // the call that fails, from 1; 0: none
  std::string failed;
  std::set<uintptr_t> live;  // handles
  uintptr_t next_handle = 0x1000;
  uint32_t next_tensor = 1;
  std::vector<std::string> nodes;   // types, in the order of addNode
  std::vector<std::string> wrong;   // what the library would have taken without a word
  uint32_t soc = 0;                 // of the last device
  std::vector<std::byte> constant;  // of the last static tensor
  std::string deadly;               // a type: finalizing a graph with such a node crashes
};
inline State& state() {
  static State s;
  return s;
}
inline void reset(int fail_at = 0) {
  state() = {};
  state().fail_at = fail_at;
}

inline abi::ErrorCode call(const char* name) {
  if (++state().calls != state().fail_at) return 0;
  state().failed = name;
  return 1100;
}
inline abi::ErrorCode make(const char* name, abi::Handle* out) {
  if (const abi::ErrorCode e = call(name); e != 0) return e;
  state().live.insert(++state().next_handle);
  *out = reinterpret_cast<abi::Handle>(state().next_handle);
  return 0;
}
// Frees also when it fails: what is counted is that it was called once.
inline abi::ErrorCode free(const char* name, abi::Handle handle) {
  if (state().live.erase(reinterpret_cast<uintptr_t>(handle)) != 1)
    state().wrong.push_back(cat(name, " of no handle"));
  return call(name);
}
inline void check_op(const abi::Op& op) {
  if (op.version != 1 || std::strcmp(op.package, abi::kPackage) != 0) state().wrong.push_back("op");
  for (uint32_t i = 0; i < op.input_count; ++i)
    if (op.inputs[i].version != 1 || !op.inputs[i].v1.name) state().wrong.push_back("operand");
}

// The "binary" of a context, and its description.
inline constexpr char kBinary[] = "a fake context";
inline const abi::BinaryInfo& binary_info() {
  static const uint32_t dims[] = {2, 3};
  static const auto tensor = [](uint32_t id, const char* name, TensorKind kind) {
    abi::Tensor t{};
    t.version = 2;
    t.v1.id = id;
    t.v1.name = name;
    t.v1.kind = kind;
    t.v1.dtype = DataType::f32;
    t.v1.rank = 2;
    t.v1.dims = dims;
    return t;
  };
  static const abi::Tensor in = tensor(7, "x", TensorKind::app_write),
                           out = tensor(8, "y", TensorKind::app_read);
  static const abi::GraphInfo graph{
      .version = 3, .name = "forward", .input_count = 1, .inputs = &in, .output_count = 1, .outputs = &out};
  static const abi::BinaryInfo info{.version = 3,
                                    .backend_id = abi::kHtpBackend,
                                    .build_id = "v2.49.0",
                                    .core_api = {2, 38, 0},
                                    .graph_count = 1,
                                    .graphs = &graph,
                                    .soc_model = 57};
  return info;
}

inline const abi::Provider& provider() {
  static const abi::Provider p = [] {
    abi::Provider out{};
    out.backend_id = abi::kHtpBackend;
    out.name = "fake";
    out.core_api = {2, 38, 0};
    out.backend_api = {5, 49, 0};
    abi::Functions& f = out.functions;
    f.backend_build_id = [](const char** id) -> abi::ErrorCode { return *id = "v2.49.0.1", 0; };
    f.log_create = [](abi::LogFunction, uint32_t, abi::Handle* h) { return make("logCreate", h); };
    f.log_free = [](abi::Handle h) { return free("logFree", h); };
    f.backend_create = [](abi::Handle, abi::ConfigList, abi::Handle* h) { return make("backendCreate", h); };
    f.backend_free = [](abi::Handle h) { return free("backendFree", h); };
    f.device_create = [](abi::Handle, abi::ConfigList list, abi::Handle* h) -> abi::ErrorCode {
      const auto* custom = static_cast<const abi::HtpDeviceConfig*>(list[0]->custom);
      if (custom->soc != custom->soc_again || list[1]) state().wrong.push_back("device config");
      state().soc = custom->soc;
      return make("deviceCreate", h);
    };
    f.device_free = [](abi::Handle h) { return free("deviceFree", h); };
    f.backend_validate_op = [](abi::Handle, abi::Op op) {
      check_op(op);
      return call("backendValidateOpConfig");
    };
    f.context_create = [](abi::Handle, abi::Handle, abi::ConfigList, abi::Handle* h) {
      return make("contextCreate", h);
    };
    f.context_from_binary = [](abi::Handle, abi::Handle, abi::ConfigList, const void*, uint64_t,
                               abi::Handle* h, abi::Handle) { return make("contextCreateFromBinary", h); };
    f.context_free = [](abi::Handle h, abi::Handle) { return free("contextFree", h); };
    f.context_binary_size = [](abi::Handle, uint64_t* size) {
      *size = sizeof kBinary;
      return call("contextGetBinarySize");
    };
    f.context_binary = [](abi::Handle, void* buffer, uint64_t, uint64_t* written) {
      std::memcpy(buffer, kBinary, sizeof kBinary);
      *written = sizeof kBinary;
      return call("contextGetBinary");
    };
    // Graphs have no free.
    f.graph_create = [](abi::Handle, const char*, abi::ConfigList, abi::Handle* h) -> abi::ErrorCode {
      *h = reinterpret_cast<abi::Handle>(1);
      return call("graphCreate");
    };
    f.graph_retrieve = [](abi::Handle, const char*, abi::Handle* h) -> abi::ErrorCode {
      *h = reinterpret_cast<abi::Handle>(1);
      return call("graphRetrieve");
    };
    f.graph_add_node = [](abi::Handle, abi::Op op) {
      check_op(op);
      state().nodes.emplace_back(op.type);
      return call("graphAddNode");
    };
    f.graph_finalize = [](abi::Handle, abi::Handle, abi::Handle) {
      for (const std::string& type : state().nodes)
        if (type == state().deadly) std::raise(SIGSEGV);
      return call("graphFinalize");
    };
    f.graph_execute = [](abi::Handle, const abi::Tensor* in, uint32_t n, abi::Tensor* out, uint32_t m,
                         abi::Handle, abi::Handle) {
      for (uint32_t i = 0; i < n && i < m; ++i)
        std::memcpy(out[i].v1.buffer.data, in[i].v1.buffer.data, out[i].v1.buffer.size_bytes);
      return call("graphExecute");
    };
    f.tensor_create_graph = [](abi::Handle, abi::Tensor* t) {
      t->v1.id = state().next_tensor++;
      if (t->v1.kind == TensorKind::constant) {
        const auto* data = static_cast<const std::byte*>(t->v1.buffer.data);
        state().constant.assign(data, data + t->v1.buffer.size_bytes);
      }
      return call("tensorCreateGraphTensor");
    };
    f.profile_create = [](abi::Handle, uint32_t, abi::Handle* h) { return make("profileCreate", h); };
    f.profile_free = [](abi::Handle h) { return free("profileFree", h); };
    f.profile_events = [](abi::Handle, const uint64_t** ids, uint32_t* count) {
      static const uint64_t all[] = {1};
      *ids = all;
      *count = 1;
      return call("profileGetEvents");
    };
    f.profile_sub_events = [](uint64_t id, const uint64_t** ids, uint32_t* count) {
      static const uint64_t parts[] = {2, 3};
      *ids = parts;
      *count = id == 1 ? 2 : 0;
      return call("profileGetSubEvents");
    };
    f.profile_event_data = [](uint64_t id, abi::ProfileEvent* out) {
      *out = {400, 1, 10 * id, "time"};
      return call("profileGetEventData");
    };
    return out;
  }();
  return p;
}
inline Library library() { return {"fake", &provider(), "v2.49.0.1"}; }

inline SystemLibrary system() {
  static const abi::SystemProvider p = [] {
    abi::SystemProvider out{};
    out.name = "fake";
    out.api = {1, 13, 0};
    out.functions.context_create = [](abi::Handle* h) { return make("systemContextCreate", h); };
    out.functions.context_binary_info = [](abi::Handle, void*, uint64_t, const abi::BinaryInfo** info,
                                           uint64_t*) {
      *info = &binary_info();
      return call("systemContextGetBinaryInfo");
    };
    out.functions.context_free = [](abi::Handle h) { return free("systemContextFree", h); };
    return out;
  }();
  return {"fake", &p};
}

}  // namespace sixfold::qnn::fake
