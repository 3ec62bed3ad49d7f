// Engines behind the QNN API and the context binaries that are loaded into them, shared by all delegates.
#pragma once

#include <memory>
#include <mutex>

#include "sixfold/execute/delegate.h"
#include "sixfold/execute/qnn_delegate.h"
#include "sixfold/execute/qnn_payload.h"
#include "sixfold/qnn/context.h"

namespace sixfold {

// A library with a device for one SoC. All delegates for that SoC share it.
struct QnnEngine {
  qnn::SystemLibrary system;
  std::unique_ptr<qnn::Backend> backend;
};

// A binary that is loaded, for all methods whose graphs are in it.
struct QnnBinary {
  std::shared_ptr<QnnEngine> engine;  // outlives the rest
  std::unique_ptr<qnn::Profile> profile;
  std::unique_ptr<qnn::Context> context;
  std::mutex running;  // a graph runs once at a time, and methods loaded twice share it
};

// What was registered. Not for several threads: callers hold qnn_mutex().
QnnDelegateOptions& qnn_delegate_options();
std::mutex& qnn_mutex();

// Payloads of the program that no manifest vouches for are loaded in a child process first, all of them
// together and before this process has an engine: what crashes there is refused here. Once for a program.
Status guard_payloads(const Program& program);

// Loads a payload, or finds it where another delegate did.
Result<std::shared_ptr<QnnBinary>> load_qnn_binary(const DelegateInit& init, const QnnPayload& payload);

}  // namespace sixfold
