// Qualcomm's libraries: where they are, loading them, their versions.
//
// They are the user's, installed from their own package, and are used through the C API alone. A loaded
// library stays for the life of the process: its worker threads may still be there when the last handle is
// freed. So a Library is a plain value, and what it points to is always valid.
#pragma once

#include <string>
#include <vector>

#include "sixfold/base/result.h"
#include "sixfold/qnn/abi.h"

namespace sixfold::qnn {

std::string to_text(const Version& version);  // "2.38.0"

inline constexpr const char* kHowToGetLibraries =
    "pip install onnxruntime-qnn brings Qualcomm's libraries, or name their folder with --qnn-lib-dir or "
    "QNN_SDK_ROOT";

// A folder in which libraries were looked for.
struct Place {
  std::string folder;
  std::string why;  // "--qnn-lib-dir", "QNN_SDK_ROOT", "VIRTUAL_ENV", "python3 on PATH", ".venv"
  bool has_library = false;
};
// In this order: lib_dir; QNN_SDK_ROOT; the onnxruntime-qnn wheel of VIRTUAL_ENV, of the python3 on PATH and
// of ./.venv. The first two are demands: where one is given, nothing after it is looked at. No Python runs.
std::vector<Place> library_places(const std::string& lib_dir = "");
// The first place that has libQnnHtp.so, or an error that says how to get it.
Result<std::string> find_library_folder(const std::string& lib_dir = "");

// libQnnHtp.so, or whatever answers the same API.
struct Library {
  std::string path;
  const abi::Provider* provider = nullptr;
  std::string build_id;  // "v2.49.40.260312..."

  const abi::Functions& functions() const { return provider->functions; }
  Version core_api() const { return provider->core_api; }
  Version backend_api() const { return provider->backend_api; }
  std::string sdk_version() const;  // "2.49.40", from the build id

  static Result<Library> load(const std::string& folder, const std::string& name = "libQnnHtp.so");
  // The first provider that we can talk to: core API 2.10 or a later 2, every function there.
  static Result<Library> choose(std::string path, const abi::Provider* const* list, uint32_t count);
};

// libQnnSystem.so: reads context binaries without a backend.
struct SystemLibrary {
  std::string path;
  const abi::SystemProvider* provider = nullptr;

  const abi::SystemFunctions& functions() const { return provider->functions; }
  Version api() const { return provider->api; }

  static Result<SystemLibrary> load(const std::string& folder, const std::string& name = "libQnnSystem.so");
};

// Time spent inside the libraries since the process began, loading included. CPU time is that of the whole
// process while a call is under way, since the library has threads of its own.
struct Usage {
  double cpu_s = 0, wall_s = 0;
};
Usage library_usage();

// Counts the time until its end as the library's. Nested ones count once.
class LibraryTimer {
 public:
  LibraryTimer();
  ~LibraryTimer();
  LibraryTimer(const LibraryTimer&) = delete;
  LibraryTimer& operator=(const LibraryTimer&) = delete;

 private:
  int64_t cpu_ns_ = 0, wall_ns_ = 0;
};

}  // namespace sixfold::qnn
