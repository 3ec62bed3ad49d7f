#include "sixfold/qnn/library.h"

#include <dlfcn.h>
#include <time.h>

#include <atomic>
#include <filesystem>

#include "sixfold/qnn/error.h"
#include "sixfold/qnn/log.h"
#include "sixfold/qnn/stage.h"

namespace sixfold::qnn {
namespace {

namespace fs = std::filesystem;

// Copies of the wheel's libraries find no libc++, which lies beside the wheel's folder: what is already
// loaded under that name serves them too.
void load_runtimes(const fs::path& folder) {
  std::error_code none;
  for (const fs::path& place :
       {folder, folder / "onnxruntime_qnn.libs", folder / ".." / "onnxruntime_qnn.libs"}) {
    std::vector<std::string> files;
    for (fs::directory_iterator it(place, none), end; !none && it != end; it.increment(none))
      if (const std::string name = it->path().filename();
          name.starts_with("libunwind") || name.starts_with("libc++"))
        files.push_back(it->path());
    // They need each other: the second round finds what the first loaded.
    for (int round = 0; round < 2; ++round)
      for (const std::string& file : files) ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  }
}

Result<void*> open_library(const fs::path& path) {
  std::error_code none;
  // The run path counts from the real file, so a link works like the file itself.
  const fs::path real = fs::canonical(path, none);
  if (none) return fail(Code::NotFound, path.string(), " does not exist");
  const QuietOutput quiet, quiet_errors(stderr);
  const LibraryTimer timer;
  void* handle = ::dlopen(real.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle) {
    load_runtimes(path.parent_path());
    handle = ::dlopen(real.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  }
  if (handle) return handle;
  const char* why = ::dlerror();
  std::string text = cat(path.string(), " cannot be loaded: ", why ? why : "no reason given");
  if (text.find("libc++") != std::string::npos)
    text +=
        "; it was copied away from its wheel: link to it there, or put the folder onnxruntime_qnn.libs "
        "beside "
        "it or on LD_LIBRARY_PATH";
  return fail(Code::NotFound, text);
}

template <typename Function>
Result<Function> symbol(void* handle, const fs::path& path, const char* name) {
  auto* found = ::dlsym(handle, name);
  if (!found)
    return fail(Code::NotFound, path.string(), " has no symbol ", name, ", so it is no QNN library");
  return reinterpret_cast<Function>(found);
}

bool is_complete(const abi::Functions& f) {
  return f.backend_create && f.backend_build_id && f.backend_validate_op && f.backend_free &&
         f.context_create && f.context_binary_size && f.context_binary && f.context_from_binary &&
         f.context_free && f.graph_create && f.graph_add_node && f.graph_finalize && f.graph_retrieve &&
         f.graph_execute && f.tensor_create_graph && f.log_create && f.log_free && f.profile_create &&
         f.profile_events && f.profile_sub_events && f.profile_event_data && f.profile_free &&
         f.device_create && f.device_free;
}

std::atomic<int64_t> total_cpu_ns{0}, total_wall_ns{0};
thread_local int timers = 0;

int64_t nanoseconds(clockid_t clock) {
  timespec t{};
  ::clock_gettime(clock, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

}  // namespace

std::string to_text(const Version& v) { return cat(v.major, ".", v.minor, ".", v.patch); }

std::string Library::sdk_version() const {
  // v2.49.40.<date>: the first three numbers
  std::string text = build_id.starts_with("v") ? build_id.substr(1) : build_id;
  size_t end = 0;
  for (int dots = 0; end < text.size() && dots < 3; ++end)
    if (text[end] == '.' && ++dots == 3) break;
  return text.substr(0, end);
}

Result<Library> Library::choose(std::string path, const abi::Provider* const* list, uint32_t count) {
  std::string versions;
  for (uint32_t i = 0; list && i < count; ++i) {
    const abi::Provider* p = list[i];
    if (!p) continue;
    const bool known = p->core_api.major == 2 && p->core_api.minor >= 10;
    // An older table has another order: its slots may not even be looked at.
    if (known && is_complete(p->functions)) {
      Library library{std::move(path), p, ""};
      const char* id = nullptr;
      if (p->functions.backend_build_id(&id) == 0 && id) library.build_id = id;
      return library;
    }
    versions += cat(versions.empty() ? "" : ", ", p->core_api, known ? " (not complete)" : "");
  }
  return fail(Code::Device, path, " offers core API ", versions.empty() ? "none" : versions,
              ", expected 2.10 or a later 2");
}

Result<Library> Library::load(const std::string& folder, const std::string& name) {
  const fs::path path = fs::path(folder) / name;
  const Stage stage({"loading ", path.native()});
  SF_ASSIGN(void* const handle, open_library(path));
  SF_ASSIGN(const auto providers, symbol<abi::GetProviders>(handle, path, "QnnInterface_getProviders"));
  const LibraryTimer timer;
  const abi::Provider* const* list = nullptr;
  uint32_t count = 0;
  if (const abi::ErrorCode e = providers(&list, &count); e != 0)
    return device_error("getProviders", e).during(cat("loading ", path.string()));
  return choose(path.string(), list, count);
}

Result<SystemLibrary> SystemLibrary::load(const std::string& folder, const std::string& name) {
  const fs::path path = fs::path(folder) / name;
  SF_ASSIGN(void* const handle, open_library(path));
  SF_ASSIGN(const auto providers,
            symbol<abi::GetSystemProviders>(handle, path, "QnnSystemInterface_getProviders"));
  const abi::SystemProvider* const* list = nullptr;
  uint32_t count = 0;
  if (const abi::ErrorCode e = providers(&list, &count); e != 0)
    return device_error("system getProviders", e).during(cat("loading ", path.string()));
  for (uint32_t i = 0; list && i < count; ++i)
    if (list[i] && list[i]->api.major == 1 && list[i]->functions.context_create &&
        list[i]->functions.context_binary_info && list[i]->functions.context_free)
      return SystemLibrary{path.string(), list[i]};
  return fail(Code::Device, path.string(), " offers no system API of version 1");
}

Usage library_usage() {
  return {static_cast<double>(total_cpu_ns) * 1e-9, static_cast<double>(total_wall_ns) * 1e-9};
}

LibraryTimer::LibraryTimer() {
  if (timers++ > 0) return;
  cpu_ns_ = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
  wall_ns_ = nanoseconds(CLOCK_MONOTONIC);
}

LibraryTimer::~LibraryTimer() {
  if (--timers > 0) return;
  total_cpu_ns += nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns_;
  total_wall_ns += nanoseconds(CLOCK_MONOTONIC) - wall_ns_;
}

}  // namespace sixfold::qnn
