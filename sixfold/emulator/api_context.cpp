#include <chrono>
#include <cstring>

#include "sixfold/emulator/api.h"
#include "sixfold/emulator/binary.h"
#include "sixfold/qnn/soc.h"

namespace sixfold::emulator::api {
namespace {

constexpr size_t kMostConfigs = 1024;

using Clock = std::chrono::steady_clock;
uint64_t since(Clock::time_point start) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count());
}

// A backend, and the device when one is named: without, the one that was made last.
ErrorCode open_context(Handle backend, Handle device, std::shared_ptr<ContextObject>& out) {
  out = std::make_shared<ContextObject>();
  out->backend = objects().backends.find(backend);
  if (!out->backend) return kBackendHandle;
  if (device) {
    const auto object = objects().devices.find(device);
    if (!object) return kDeviceHandle;
    out->device = object->model;
  } else {
    const std::lock_guard lock(objects().mutex);
    out->device = objects().last_device;
  }
  return kOk;
}

struct LoadOptions {
  bool is_persistent = false;  // the client keeps the bytes as long as the context
};
ErrorCode read_context_configs(ConfigList configs, LoadOptions* load) {
  for (size_t i = 0; configs && configs[i]; ++i) {
    if (i >= kMostConfigs) return kContextArgument;
    const abi::Config& c = *configs[i];
    if (c.option == 0 && !c.custom) return kContextConfig;
    if (c.option == abi::kContextPersistentBinary && load) load->is_persistent = (c.priority & 0xFF) != 0;
  }
  return kOk;
}

// Its lock is held.
Result<BinaryLayout> lay_out(const ContextObject& context) {
  std::vector<GraphDescription> graphs;
  for (const auto& object : context.graphs) {
    const Graph& g = object->graph;
    if (!g.is_finalized()) return invalid_argument("graph ", g.name(), " is not finalized");
    GraphDescription& d = graphs.emplace_back();
    d.name = g.name();
    d.vtcm_mb = object->vtcm_mb;
    d.optimization_level = object->optimization_level;
    d.hvx_threads = object->hvx_threads;
    d.tensors = g.tensors();
    d.ops = g.ops();
    d.stored = g.stored();
  }
  return BinaryLayout(context.device, graphs, context.constants);
}

// take(layout) while nothing of the context changes.
template <typename Take>
ErrorCode with_binary(Handle handle, const Take& take) {
  const std::shared_ptr<ContextObject> context = objects().contexts.find(handle);
  if (!context) return kContextHandle;
  if (context->is_loaded)
    return refuse(context->log(), kNotPermitted, invalid_argument("a loaded context has no binary to give"));
  const std::lock_guard lock(context->building);
  if (context->graphs.empty()) return kContextNotFinalized;
  const Result<BinaryLayout> layout = lay_out(*context);
  if (!layout.ok()) return refuse(context->log(), kContextNotFinalized, layout.error());
  return take(*context, *layout);
}

Status load(ContextObject& context, const std::shared_ptr<ContextObject>& self,
            std::span<const std::byte> bytes, const LoadOptions& options) {
  if (!options.is_persistent || reinterpret_cast<uintptr_t>(bytes.data()) % kBinaryAlignment != 0) {
    SF_ASSIGN(context.bytes, OwnedBlock::take(*objects().allocator, bytes.size(), "a context binary"));
    std::memcpy(context.bytes.data(), bytes.data(), bytes.size());
    bytes = {context.bytes.data(), bytes.size()};
  }
  SF_ASSIGN(BinaryContent content, read_binary(bytes));
  if (context.device.soc != 0 && content.device.soc != context.device.soc)
    return invalid_argument("the context binary is for ", qnn::describe_soc(content.device.soc),
                            ", the device is ", qnn::describe_soc(context.device.soc));
  context.device = content.device;
  for (const auto& c : content.constants) context.constants.add_view(c.data(), c.size());
  for (GraphDescription& d : content.graphs) {
    auto graph =
        std::make_shared<GraphObject>(d.name, context.device, context.constants, *objects().allocator);
    graph->vtcm_mb = d.vtcm_mb;
    graph->optimization_level = d.optimization_level;
    graph->hvx_threads = d.hvx_threads;
    graph->context = self;
    if (Status s = graph->graph.restore(std::move(d.tensors), std::move(d.ops), std::move(d.stored)); !s.ok())
      return s.take_error().during(cat("loading graph ", d.name));
    context.graphs.push_back(std::move(graph));
  }
  context.is_loaded = true;
  return {};
}

}  // namespace

ErrorCode context_create(Handle backend, Handle device, ConfigList configs, Handle* out) {
  if (!out) return kContextArgument;
  std::shared_ptr<ContextObject> context;
  if (const ErrorCode e = open_context(backend, device, context); e != kOk) return e;
  if (const ErrorCode e = read_context_configs(configs, nullptr); e != kOk) return e;
  *out = objects().contexts.add(std::move(context));
  return kOk;
}

ErrorCode context_set_config(Handle context, ConfigList configs) {
  if (!objects().contexts.find(context)) return kContextHandle;
  return read_context_configs(configs, nullptr);
}

ErrorCode context_binary_size(Handle handle, uint64_t* size) {
  if (!size) return kContextArgument;
  return with_binary(handle, [&](const ContextObject&, const BinaryLayout& layout) {
    *size = layout.size_bytes();
    return kOk;
  });
}

ErrorCode context_binary(Handle handle, void* buffer, uint64_t capacity, uint64_t* written) {
  if (!buffer || !written) return kContextArgument;
  return with_binary(handle, [&](const ContextObject& context, const BinaryLayout& layout) {
    if (capacity < layout.size_bytes())
      return refuse(
          context.log(), kContextArgument,
          invalid_argument("the binary has ", layout.size_bytes(), " bytes, the buffer ", capacity));
    layout.write({static_cast<std::byte*>(buffer), layout.size_bytes()});
    *written = layout.size_bytes();
    return kOk;
  });
}

ErrorCode context_from_binary(Handle backend, Handle device, ConfigList configs, const void* bytes,
                              uint64_t size, Handle* out, Handle profile) {
  if (!out || !bytes || size == 0) return kContextArgument;
  const auto start = Clock::now();
  std::shared_ptr<ContextObject> context;
  if (const ErrorCode e = open_context(backend, device, context); e != kOk) return e;
  LoadOptions options;
  if (const ErrorCode e = read_context_configs(configs, &options); e != kOk) return e;
  if (Status s = load(*context, context, {static_cast<const std::byte*>(bytes), size}, options); !s.ok())
    return refuse(context->log(),
                  s.error().code() == Code::InvalidModel  ? kSystemMalformed
                  : s.error().code() == Code::OutOfMemory ? kMemory
                                                          : kContextBinary,
                  s.error());
  for (const auto& g : context->graphs) g->handle = objects().graphs.add(g);
  *out = objects().contexts.add(std::move(context));
  report(profile, 100, since(start), "QNN (load binary) time");
  return kOk;
}

ErrorCode context_validate_binary(Handle backend, Handle device, ConfigList, const void* bytes,
                                  uint64_t size) {
  if (!bytes || size == 0) return kContextArgument;
  std::shared_ptr<ContextObject> context;
  if (const ErrorCode e = open_context(backend, device, context); e != kOk) return e;
  const Result<BinaryContent> content = read_binary({static_cast<const std::byte*>(bytes), size});
  if (!content.ok()) return refuse(context->log(), kSystemMalformed, content.error());
  return content->device.soc == context->device.soc ? kOk : kContextBinary;
}

ErrorCode context_free(Handle handle, Handle profile) {
  const auto start = Clock::now();
  {
    const auto context = objects().contexts.remove(handle);
    if (!context) return kContextHandle;
    const std::lock_guard lock(context->building);
    for (const auto& g : context->graphs) objects().graphs.remove(g->handle);
    objects().memories.remove_if([&](const MemoryObject& m) { return m.context.lock() == context; });
  }
  report(profile, 500, since(start), "QNN (deinit) time");
  return kOk;
}

}  // namespace sixfold::emulator::api
