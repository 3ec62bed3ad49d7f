// A backend with a device for one SoC: what is asked before anything is built.
//
// Not for several threads at once: the library keeps the SoC to prepare for in the process.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sixfold/qnn/handle.h"
#include "sixfold/qnn/types.h"

namespace sixfold::qnn {

class Backend {
 public:
  // soc: the API's number (SM8650: 57), see qnn/soc.h. Starts the library's worker threads.
  static Result<Backend> open(Library library, uint32_t soc, abi::LogLevel level = abi::LogLevel::error);

  // Whether the device has this op, for these types, dims, encodings and parameters; Unsupported with the
  // library's reason when not. Needs no data of static tensors. Answers are remembered by content.
  //
  // What it accepts may still fail when the graph is finalized, or be computed wrongly: missing encodings and
  // block encodings above 1x1 are never refused.
  Status validate(const GraphSpec& graph, const OpSpec& op);
  size_t asked() const { return asked_; }  // calls that reached the library

  // The library answers and prepares for the SoC for which a device was made last, whoever asks: makes that
  // ours again if another backend was opened meanwhile.
  Status select() const;

  Result<std::vector<std::string>> supported_ops() const;  // types of package qti.aisw

  const Library& library() const { return library_; }
  const abi::Functions& functions() const { return library_.functions(); }
  uint32_t soc() const { return soc_; }
  abi::Handle handle() const { return backend_.get(); }
  abi::Handle device() const { return device_.get(); }

 private:
  Backend(Library library, uint32_t soc) : library_(std::move(library)), soc_(soc) {}
  Result<DeviceHandle> make_device() const;
  Result<std::string> ask(const GraphSpec& graph, const OpSpec& op) const;

  Library library_;
  uint32_t soc_ = 0;
  LogHandle log_;  // freed last
  BackendHandle backend_;
  DeviceHandle device_;
  std::map<std::string, std::string, std::less<>> answers_;  // an op's content -> reason; empty: accepted
  size_t asked_ = 0;
};

}  // namespace sixfold::qnn
