// Delegate "QnnBackend": context binaries for Qualcomm's NPU, run on an engine behind the QNN API.
#pragma once

#include <optional>
#include <string>

#include "sixfold/base/result.h"
#include "sixfold/qnn/library.h"

namespace sixfold {

struct QnnDelegateOptions {
  std::string lib_dir;  // where the engine's libraries are; empty: looked for (qnn/library.h)
  // An engine of this process instead, such as the emulator.
  std::optional<qnn::Library> library;
  std::optional<qnn::SystemLibrary> system;
};

// From now on programs with such delegates load. The library is opened when the first one does.
Status register_qnn_delegate(QnnDelegateOptions options);

}  // namespace sixfold
