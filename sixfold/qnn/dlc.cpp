// A DLC: a graph that the IR backend wrote, to be prepared where it runs.
#include <cstring>

#include "sixfold/qnn/context.h"
#include "sixfold/qnn/error.h"
#include "sixfold/qnn/graph_builder.h"
#include "sixfold/qnn/log.h"

namespace sixfold::qnn {
namespace {

// The call that makes graphs of a DLC takes the whole provider by value, so where its last arguments lie
// depends on how many functions that version has. These were found live; another number would crash.
constexpr uint32_t kFirstKnown = 36, kFirstOf75 = 39, kLastKnown = 40;

template <size_t count>
struct ProviderValue {
  uint32_t backend_id;
  const char* name;
  uint32_t core_api[3], backend_api[3];
  abi::Unused functions[count];
};
template <size_t count>
using Compose = abi::ErrorCode (*)(abi::Handle dlc, const void* const* configs, uint32_t config_count,
                                   abi::Handle backend, abi::Handle context, ProviderValue<count> provider,
                                   uint32_t info_version, abi::GraphInfo** graphs, uint32_t* graph_count);
static_assert(sizeof(ProviderValue<72>) == offsetof(abi::Provider, functions) + 72 * 8);

// Functions that only this needs: slots 9, 10 and 12 of the system library's table, which has had them since
// long before the versions above.
constexpr uint32_t kFirstSystem = 11;
abi::Unused slot(const SystemLibrary& system, size_t i) {
  return reinterpret_cast<const abi::Unused*>(&system.functions())[i];
}
using FromBinary = abi::ErrorCode (*)(abi::Handle log, const void* bytes, uint64_t size, abi::Handle* out);
using Free = abi::ErrorCode (*)(abi::Handle dlc);
using SetConfig = abi::ErrorCode (*)(abi::Handle graph, abi::ConfigList);

struct Composed {
  abi::GraphInfo* graphs = nullptr;
  uint32_t count = 0;
};

template <size_t count>
abi::ErrorCode compose(const SystemLibrary& system, abi::Handle dlc, const Backend& backend,
                       abi::Handle context, Composed* out) {
  // What the library's own object has past the slots that we know is copied with it.
  ProviderValue<count> provider;
  std::memcpy(&provider, backend.library().provider, sizeof provider);
  const auto call = reinterpret_cast<Compose<count>>(slot(system, 10));
  return call(dlc, nullptr, 0, backend.handle(), context, provider, /*info_version=*/3, &out->graphs,
              &out->count);
}

class Dlc {
 public:
  explicit Dlc(const SystemLibrary& system) : system_(system) {}
  ~Dlc() {
    if (handle) reinterpret_cast<Free>(slot(system_, 12))(handle);
  }
  Dlc(const Dlc&) = delete;
  Dlc& operator=(const Dlc&) = delete;
  abi::Handle handle = nullptr;

 private:
  const SystemLibrary& system_;
};

}  // namespace

Result<Context> Context::from_dlc(const Backend& backend, const SystemLibrary& system,
                                  std::span<const std::byte> bytes, const ContextOptions& options) {
  const Version version = backend.library().core_api();
  if (version.major != 2 || version.minor < kFirstKnown || version.minor > kLastKnown ||
      system.api().minor < kFirstSystem)
    return unsupported("a DLC cannot be prepared with QNN core API ", version, ", only with 2.", kFirstKnown,
                       " to 2.", kLastKnown);
  SF_TRY(backend.select());
  const abi::Functions& f = backend.functions();
  Context out;
  out.backend_ = &backend;
  const QuietOutput quiet;
  const LogCapture log;
  const LibraryTimer timer;
  abi::Handle handle = nullptr;
  if (const abi::ErrorCode e = f.context_create(backend.handle(), backend.device(), nullptr, &handle); e != 0)
    return device_error("contextCreate", e, log.reason());
  out.handle_ = {f, handle};
  Dlc dlc(system);
  if (const abi::ErrorCode e =
          reinterpret_cast<FromBinary>(slot(system, 9))(nullptr, bytes.data(), bytes.size(), &dlc.handle);
      e != 0)
    return invalid_model("these ", bytes.size(), " bytes are no DLC that ", system.path,
                         " reads: systemDlcCreateFromBinary failed with ", code_of(e), " (",
                         error_name(code_of(e)), ")");
  Composed composed;
  const abi::ErrorCode e = version.minor >= kFirstOf75
                               ? compose<75>(system, dlc.handle, backend, handle, &composed)
                               : compose<72>(system, dlc.handle, backend, handle, &composed);
  if (e != 0) return device_error("systemDlcComposeGraphs", e, log.reason());
  if (!composed.graphs) return fail(Code::Device, "systemDlcComposeGraphs gave nothing");
  const HtpGraphConfigs configs(options.graph);
  for (uint32_t i = 0; i < composed.count; ++i) {
    SF_ASSIGN(GraphInfo info, read_graph_info(composed.graphs[i]));
    abi::Handle graph = nullptr;
    if (const abi::ErrorCode r = f.graph_retrieve(handle, info.name.c_str(), &graph); r != 0)
      return device_error("graphRetrieve", r, log.reason()).during(cat("looking for graph ", info.name));
    const auto set_config = reinterpret_cast<SetConfig>(f.graph_set_config);
    if (set_config)
      if (const abi::ErrorCode r = set_config(graph, configs.list()); r != 0)
        return device_error("graphSetConfig", r, log.reason()).during(cat("preparing graph ", info.name));
    const abi::Handle profile = options.profile ? options.profile->handle() : nullptr;
    if (const abi::ErrorCode r = f.graph_finalize(graph, profile, nullptr); r != 0)
      return device_error("graphFinalize", r, log.reason()).during(cat("preparing graph ", info.name));
    out.graphs_.emplace_back(f, graph, std::move(info));
  }
  return out;
}

}  // namespace sixfold::qnn
