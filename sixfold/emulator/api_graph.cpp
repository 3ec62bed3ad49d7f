#include <chrono>

#include "sixfold/emulator/api.h"
#include "sixfold/emulator/read_abi.h"
#include "sixfold/qnn/binary_info.h"

namespace sixfold::emulator::api {
namespace {

constexpr size_t kMostConfigs = 1024;
constexpr uint32_t kMostBatches = 1u << 16;

using Clock = std::chrono::steady_clock;
uint64_t since(Clock::time_point start) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count());
}

// A graph whose context and backend are there; the context is held meanwhile.
struct Held {
  std::shared_ptr<GraphObject> object;
  std::shared_ptr<ContextObject> context;

  explicit Held(Handle handle) : object(objects().graphs.find(handle)) {
    if (object) context = object->context.lock();
    if (!context || !context->backend->is_alive) object = nullptr;
  }
  explicit operator bool() const { return object != nullptr; }
  Graph& graph() const { return object->graph; }
  ErrorCode refuse(ErrorCode code, const Error& error) const {
    return emulator::refuse(context->log(), code, error);
  }
};

// Ids are places in the graph, from 1.
Result<uint32_t> index_of(const Graph& graph, const abi::Tensor& t) {
  if (t.version != 1 && t.version != 2)
    return invalid_argument("a tensor has version ", t.version, ", expected 1 or 2");
  if (t.v1.kind == TensorKind::null) return kNone;
  if (t.v1.id == 0 || t.v1.id > graph.tensors().size())
    return invalid_argument("there is no tensor with id ", t.v1.id, " in graph ", graph.name());
  return t.v1.id - 1;
}

Result<OpDef> read_op(const Graph& graph, const abi::Op& op) {
  SF_ASSIGN(OpDef out, read_op_params(op, [&](std::string name, const abi::Tensor& t) -> Result<ParamDef> {
              SF_ASSIGN(const uint32_t index, index_of(graph, t));
              if (index == kNone || !graph.tensors()[index].is_constant())
                return invalid_argument("parameter ", name, " of op ", op.name, " is no constant");
              return param_of(std::move(name), graph.tensors()[index]);
            }));
  for (uint32_t i = 0; i < op.input_count; ++i) {
    SF_ASSIGN(const uint32_t index, index_of(graph, op.inputs[i]));
    out.in.push_back(index);
  }
  for (uint32_t i = 0; i < op.output_count; ++i) {
    SF_ASSIGN(const uint32_t index, index_of(graph, op.outputs[i]));
    out.out.push_back(index);
  }
  return out;
}

Status read_graph_configs(ConfigList configs, GraphObject& graph) {
  for (size_t i = 0; configs && configs[i]; ++i) {
    if (i >= kMostConfigs) return invalid_argument("a list of options does not end");
    if (configs[i]->option != 0) continue;
    if (!configs[i]->custom) return invalid_argument("a graph option has no content");
    const auto* custom = static_cast<const abi::HtpGraphConfig*>(configs[i]->custom);
    switch (custom->option) {
      case abi::HtpGraphOption::vtcm_mb:
        graph.vtcm_mb = custom->u32;
        break;
      case abi::HtpGraphOption::hvx_threads:
        graph.hvx_threads = static_cast<uint32_t>(custom->u64);
        break;
      case abi::HtpGraphOption::optimization:
        if (custom->optimization.type == abi::HtpOptimization::level)
          graph.optimization_level = static_cast<uint32_t>(custom->optimization.value);
        break;
      default:  // the vendor's library takes what it does not know, too
        break;
    }
  }
  return {};
}

// What a client gives for one tensor: memory for `batches` times the tensor.
struct Given {
  uint32_t tensor = 0;
  std::byte* data = nullptr;
  size_t bytes = 0;
  std::shared_ptr<const MemoryObject> memory;  // stays while the graph runs, whoever gives it back
};

struct Bytes {
  std::byte* data = nullptr;
  uint64_t size = 0;
  std::shared_ptr<const MemoryObject> memory;
};

// Where the client wants a tensor read or written.
Result<Bytes> bytes_given(const Held& held, const abi::Tensor& t) {
  if (t.v1.memory_type == abi::kBuffer)
    return Bytes{static_cast<std::byte*>(t.v1.buffer.data), t.v1.buffer.size_bytes, nullptr};
  if (t.v1.memory_type != abi::kMemory)
    return unsupported("tensor ", t.v1.id, " has memory of type ", t.v1.memory_type,
                       ", expected a buffer (0) or what was registered (1)");
  auto memory = objects().memories.find(t.v1.memory);
  if (!memory || memory->context.lock() != held.context)
    return invalid_argument("the memory of tensor ", t.v1.id, " is not registered with this context");
  return Bytes{memory->data, memory->size_bytes, std::move(memory)};
}

Result<Given> read_given(const Held& held, const abi::Tensor& t, TensorKind kind, uint32_t* batches) {
  const Graph& graph = held.graph();
  SF_ASSIGN(const uint32_t index, index_of(graph, t));
  if (index == kNone || graph.tensors()[index].kind != kind)
    return invalid_argument("tensor ", t.v1.id, " is no ", kind == TensorKind::app_write ? "input" : "output",
                            " of graph ", graph.name());
  const TensorDef& def = graph.tensors()[index];
  if (t.v1.rank != def.rank() || (t.v1.rank > 0 && !t.v1.dims))
    return invalid_argument(def.name, " has rank ", def.rank(), ", got ", t.v1.rank);
  for (uint32_t d = 1; d < t.v1.rank; ++d)
    if (t.v1.dims[d] != def.dims[d])
      return invalid_argument("dimension ", d, " of ", def.name, " is ", def.dims[d], ", got ", t.v1.dims[d]);
  uint32_t times = 1;
  if (t.v1.rank > 0) {
    if (t.v1.dims[0] == 0 || t.v1.dims[0] % def.dims[0] != 0)
      return invalid_argument("dimension 0 of ", def.name, " is ", def.dims[0], ", got ", t.v1.dims[0]);
    times = t.v1.dims[0] / def.dims[0];
  }
  if (*batches == 0) *batches = times;
  if (times != *batches || times > kMostBatches)
    return invalid_argument(def.name, " is given for ", times, " batches, expected ", *batches);
  SF_ASSIGN(Bytes to, bytes_given(held, t));
  const uint64_t bytes = uint64_t{def.size_bytes()} * times;
  if (!to.data || to.size < bytes)
    return invalid_argument(def.name, " has ", bytes, " bytes, got ", to.data ? to.size : 0);
  if (const size_t size = qnn::size_of(def.dtype); reinterpret_cast<uintptr_t>(to.data) % size != 0)
    return invalid_argument("the memory of ", def.name, " is not aligned to its elements of ", size,
                            " bytes");
  return Given{index, to.data, def.size_bytes(), std::move(to.memory)};
}

// Every input and output once.
Status read_all(const Held& held, const abi::Tensor* tensors, uint32_t count, TensorKind kind,
                std::vector<Given>& out, uint32_t* batches) {
  const Graph& graph = held.graph();
  const auto& expected = kind == TensorKind::app_write ? graph.inputs() : graph.outputs();
  const char* what = kind == TensorKind::app_write ? " inputs" : " outputs";
  if (count != expected.size() || (count > 0 && !tensors))
    return invalid_argument("graph ", graph.name(), " has ", expected.size(), what, ", got ", count);
  std::vector<bool> seen(graph.tensors().size(), false);
  for (uint32_t i = 0; i < count; ++i) {
    SF_ASSIGN(Given given, read_given(held, tensors[i], kind, batches));
    if (seen[given.tensor]) return invalid_argument("tensor ", tensors[i].v1.id, " is given twice");
    seen[given.tensor] = true;
    out.push_back(std::move(given));
  }
  return {};
}

void report_execution(const Graph& graph, Handle handle, uint64_t total_us, std::span<const StepTime> times) {
  const auto profile = objects().profiles.find(handle);
  if (!profile) return;
  const std::lock_guard lock(profile->mutex);
  profile->begin();
  profile->add(8001, 4, pool().threads(), "Number of HVX threads used");
  profile->add(3004, 1, total_us, "Accelerator (execute) time");
  if (!times.empty()) {
    uint64_t cycles = 0;
    for (const StepTime& t : times) cycles += t.nanoseconds;
    const uint64_t parent = profile->add(3003, 3, cycles, "Accelerator (execute) time (cycles)");
    for (const uint32_t i : graph.order()) {
      const OpDef& op = graph.ops()[i];
      uint64_t bytes = 0;
      for (const auto* list : {&op.in, &op.out})
        for (const uint32_t t : *list)
          if (t != kNone) bytes += graph.tensors()[t].size_bytes();
      const uint64_t event =
          profile->add(404, 3, times[i].nanoseconds, cat(op.name, ":OpId_", i, " (cycles)"), parent);
      profile->add(404, 4, graph.step(i).macs, "MACs", event);
      profile->add(404, 2, bytes, "bytes", event);
    }
  }
  profile->add(400, 1, total_us, "QNN (execute) time");
}

}  // namespace

ErrorCode graph_create(Handle context, const char* name, ConfigList configs, Handle* out) {
  const auto owner = objects().contexts.find(context);
  if (!owner || !owner->backend->is_alive) return kContextHandle;
  if (!out) return kGraphArgument;
  Result<std::string> text = read_name(name, "a graph");
  if (!text.ok()) return refuse(owner->log(), kGraphName, text.error());
  const std::lock_guard lock(owner->building);
  if (owner->is_loaded)
    return refuse(owner->log(), kNotPermitted, invalid_argument("a loaded context takes no more graphs"));
  for (const auto& g : owner->graphs)
    if (g->graph.name() == *text)
      return refuse(owner->log(), kGraphName, invalid_argument("there is a graph ", *text, " already"));
  auto object = std::make_shared<GraphObject>(*text, owner->device, owner->constants, *objects().allocator);
  if (Status s = read_graph_configs(configs, *object); !s.ok())
    return refuse(owner->log(), kGraphArgument, s.error());
  object->context = owner;
  owner->graphs.push_back(object);
  object->handle = objects().graphs.add(object);
  *out = object->handle;
  return kOk;
}

ErrorCode graph_set_config(Handle handle, ConfigList configs) {
  const Held held(handle);
  if (!held) return kGraphHandle;
  const std::lock_guard lock(held.object->building);
  if (Status s = read_graph_configs(configs, *held.object); !s.ok())
    return held.refuse(kGraphArgument, s.error());
  return kOk;
}

ErrorCode tensor_create_graph(Handle handle, abi::Tensor* tensor) {
  const Held held(handle);
  if (!held) return kTensorHandle;
  if (!tensor) return kTensorParameter;
  const std::lock_guard lock(held.object->building);
  if (held.graph().is_finalized()) return kGraphFinalized;
  Result<TensorDef> def = read_tensor(*tensor, /*with_data=*/true);
  if (!def.ok()) return held.refuse(kTensorParameter, def.error());
  if (def->kind == TensorKind::null) return kTensorParameter;
  if (!def->name.empty() && !held.object->names.insert(def->name).second)
    return held.refuse(kTensorExists, invalid_argument("there is a tensor ", def->name, " already"));
  Result<uint32_t> index = held.graph().add_tensor(std::move(def).value());
  if (!index.ok()) return held.refuse(kMemory, index.error());
  tensor->v1.id = *index + 1;
  return kOk;
}

ErrorCode graph_add_node(Handle handle, abi::Op op) {
  const Held held(handle);
  if (!held) return kGraphHandle;
  const std::lock_guard lock(held.object->building);
  if (held.graph().is_finalized()) return kGraphFinalized;
  if (Status s = check_form(op); !s.ok()) return held.refuse(kGraphOp, s.error());
  if (std::string_view(op.package) != abi::kPackage)
    return held.refuse(kGraphOp, unsupported("there is no op package ", op.package));
  Result<OpDef> def = read_op(held.graph(), op);
  if (!def.ok()) return held.refuse(kGraphTensor, def.error());
  if (Status s = held.graph().add_op(std::move(def).value()); !s.ok())
    return held.refuse(kGraphOp, s.error());
  return kOk;
}

ErrorCode graph_finalize(Handle handle, Handle profile, Handle) {
  const Held held(handle);
  if (!held) return kGraphHandle;
  const auto start = Clock::now();
  const std::lock_guard constants(held.context->building);
  const std::lock_guard lock(held.object->building);
  if (held.graph().is_finalized()) return kGraphFinalized;
  if (Status s = held.graph().finalize(); !s.ok())
    return held.refuse(s.error().code() == Code::OutOfMemory ? kMemory : kGraphFinalize, s.error());
  report(profile, 300, since(start), "QNN (finalize) time");
  return kOk;
}

ErrorCode graph_retrieve(Handle context, const char* name, Handle* out) {
  const auto owner = objects().contexts.find(context);
  if (!owner) return kContextHandle;
  Result<std::string> text = read_name(name, "a graph");
  if (!text.ok() || !out) return kGraphArgument;
  const std::lock_guard lock(owner->building);
  for (const auto& g : owner->graphs)
    if (g->graph.name() == *text) {
      *out = g->handle;
      return kOk;
    }
  return refuse(owner->log(), kGraphName, invalid_argument("there is no graph ", *text));
}

ErrorCode graph_execute(Handle handle, const abi::Tensor* inputs, uint32_t input_count, abi::Tensor* outputs,
                        uint32_t output_count, Handle profile_handle, Handle) {
  const Held held(handle);
  if (!held) return kGraphHandle;
  const Graph& graph = held.graph();
  {
    const std::lock_guard lock(held.object->building);
    if (!graph.is_finalized()) return kGraphNotFinalized;
  }
  const auto start = Clock::now();
  std::vector<Given> given;
  uint32_t batches = 0;
  Status s = read_all(held, inputs, input_count, TensorKind::app_write, given, &batches);
  if (s.ok()) s = read_all(held, outputs, output_count, TensorKind::app_read, given, &batches);
  if (!s.ok()) return held.refuse(kGraphArgument, s.error());
  const auto profile = objects().profiles.find(profile_handle);
  std::vector<StepTime> times(profile && profile->level >= 2 ? graph.ops().size() : 0);
  std::vector<Binding> bindings;
  for (uint32_t b = 0; b < batches || b == 0; ++b) {
    bindings.clear();
    for (const Given& g : given) bindings.push_back({g.tensor, g.data + g.bytes * b});
    if (Status run = graph.execute(bindings, pool(), times); !run.ok())
      return held.refuse(kMemory, run.error());
  }
  if (profile) report_execution(graph, profile_handle, since(start), times);
  return kOk;
}

}  // namespace sixfold::emulator::api
