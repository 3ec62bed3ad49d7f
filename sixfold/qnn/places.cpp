// Where Qualcomm's libraries may be.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "sixfold/qnn/library.h"

namespace sixfold::qnn {
namespace {

namespace fs = std::filesystem;

#if defined(__aarch64__)
constexpr const char* kSdkFolders[] = {"lib/aarch64-ubuntu-gcc9.4", "lib/aarch64-oe-linux-gcc11.2"};
#else
constexpr const char* kSdkFolders[] = {"lib/x86_64-linux-clang"};
#endif

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool is_there(const fs::path& path) {
  std::error_code none;
  return fs::exists(path, none) && !none;
}

void add(std::vector<Place>& places, const fs::path& folder, const char* why) {
  std::error_code none;
  for (const Place& p : places)
    if (p.folder == folder || fs::equivalent(p.folder, folder, none)) return;  // lib64 may be a link to lib
  places.push_back({folder.string(), why, is_there(folder / "libQnnHtp.so")});
}

// An SDK has its libraries in a folder for each platform.
void add_sdk(std::vector<Place>& places, const fs::path& root, const char* why) {
  for (const char* folder : kSdkFolders) add(places, root / folder, why);
}

// The wheel, wherever this Python keeps its packages: lib/python3.11/site-packages, Debian's
// lib/python3/dist-packages and local/lib/python3.11/dist-packages.
void add_python(std::vector<Place>& places, const fs::path& prefix, const char* why) {
  std::error_code none;
  bool any = false;
  for (const char* lib : {"lib", "lib64", "local/lib"})
    for (fs::directory_iterator it(prefix / lib, none), end; !none && it != end; it.increment(none)) {
      if (!it->path().filename().string().starts_with("python3")) continue;
      for (const char* packages : {"site-packages", "dist-packages"})
        if (is_there(it->path() / packages)) {
          add(places, it->path() / packages / "onnxruntime_qnn", why);
          any = true;
        }
    }
  if (!any) add(places, prefix / "lib/python3/site-packages/onnxruntime_qnn", why);
}

fs::path python_on_path() {
  const std::string path = environment("PATH");
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    const fs::path python = fs::path(path.substr(begin, end - begin)) / "python3";
    if (python.is_absolute() && is_there(python)) return python;
    begin = end + 1;
  }
  return {};
}

// pyenv puts a script of its own before every python3: which one it would start.
fs::path pyenv_prefix(const fs::path& python) {
  const fs::path shims = python.parent_path();
  if (shims.filename() != "shims") return {};
  const fs::path root = shims.parent_path();
  std::string version = environment("PYENV_VERSION");
  for (const fs::path& file : {fs::path(".python-version"), root / "version"})
    if (version.empty()) std::ifstream(file) >> version;
  return version.empty() ? fs::path() : root / "versions" / version;
}

}  // namespace

std::vector<Place> library_places(const std::string& lib_dir) {
  std::vector<Place> places;
  if (!lib_dir.empty()) {
    add(places, lib_dir, "--qnn-lib-dir");
    if (!places.front().has_library) add_sdk(places, lib_dir, "--qnn-lib-dir");
    return places;
  }
  if (const std::string root = environment("QNN_SDK_ROOT"); !root.empty()) {
    add_sdk(places, root, "QNN_SDK_ROOT");
    return places;
  }
  if (const std::string venv = environment("VIRTUAL_ENV"); !venv.empty())
    add_python(places, venv, "VIRTUAL_ENV");
  if (const fs::path python = python_on_path(); !python.empty()) {
    std::error_code none;
    if (const fs::path prefix = pyenv_prefix(python); !prefix.empty()) {
      add_python(places, prefix, "python3 on PATH");
    } else {
      // The link's own place first: a virtual environment's python3 is a link to another one.
      add_python(places, python.parent_path().parent_path(), "python3 on PATH");
      if (const fs::path real = fs::canonical(python, none); !none)
        add_python(places, real.parent_path().parent_path(), "python3 on PATH");
    }
    if (const std::string home = environment("HOME");
        !home.empty() && is_there(fs::path(home) / ".local/lib"))
      add_python(places, fs::path(home) / ".local", "python3 on PATH");
  }
  add_python(places, ".venv", ".venv");
  return places;
}

Result<std::string> find_library_folder(const std::string& lib_dir) {
  const std::vector<Place> places = library_places(lib_dir);
  std::string looked;
  for (const Place& p : places) {
    if (p.has_library) return p.folder;
    looked += cat(looked.empty() ? "" : ", ", p.folder, " (", p.why, ")");
  }
  return fail(Code::NotFound, "libQnnHtp.so is not there: looked in ", looked, "; ", kHowToGetLibraries);
}

}  // namespace sixfold::qnn
