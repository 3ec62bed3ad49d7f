// Delegate "QnnBackend": context binaries for Qualcomm's NPU, run on an engine behind the QNN API.
#pragma once

#include <optional>
#include <string>

#include "sixfold/base/result.h"
#include "sixfold/qnn/profile.h"

namespace sixfold {

struct QnnDelegateOptions {
  std::string lib_dir;  // where the engine's libraries are; empty: looked for (qnn/library.h)
  // An engine of this process instead, such as the emulator.
  std::optional<qnn::Library> library;
  std::optional<qnn::SystemLibrary> system;
  uint32_t soc = 0;  // the device; 0: whatever each file is for, which a host's engine can be
  // What each call reports; nothing: as the file's compile spec says.
  std::optional<qnn::ProfileLevel> profile_level;
  // Payloads of files without a manifest are tried in a child process first, unless the engine is ours.
  bool guard = true;
};

// From now on programs with such delegates load. The library is opened when the first one does.
Status register_qnn_delegate(QnnDelegateOptions options);

}  // namespace sixfold
