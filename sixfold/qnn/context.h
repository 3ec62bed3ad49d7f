// A context: graphs built or loaded, their binary, and running them.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <vector>

#include "sixfold/base/bytes.h"
#include "sixfold/qnn/backend.h"
#include "sixfold/qnn/binary_info.h"
#include "sixfold/qnn/profile.h"

namespace sixfold::qnn {

enum class Priority : uint32_t { low = 0, normal = 100, normal_high = 150, high = 200 };

struct GraphOptions {
  bool fp16 = true;                 // FLOAT_32 tensors are computed as halves
  uint32_t vtcm_mb = 0;             // 0: all that the SoC has; the library's own default is 4
  uint32_t optimization_level = 3;  // 1 to 3: slower to prepare, faster to run
  uint32_t hvx_threads = 0;         // 0: the library's choice
  Priority priority = Priority::normal;
  bool dlbc = false, dlbc_weights = false;  // bandwidth compression
  bool slc_allocator = false;
  bool fold_relu = true, short_conv_on_hmx = true;
};
struct ContextOptions {
  GraphOptions graph;           // of every graph
  bool weight_sharing = false;  // equal weights of several graphs are stored once
  Profile* profile = nullptr;   // events of finalize (of the last graph) or load
  // The bytes that are loaded live as long as the context, so the emulator uses weights where they lie. The
  // vendor's library on a host refuses the option.
  bool bytes_stay = false;
};

// The binary of graphs as Context::build prepares them, behind so many bytes of room. Where the library has
// crashed before (qnn/stage.h) a child prepares them, so that the next crash is an error of code Device.
Result<Bytes> prepare_binary(const Backend& backend, std::span<const GraphSpec> graphs,
                             const ContextOptions& options = {}, size_t room = 0);

// A graph that can run. Belongs to a Context, and lives as long.
class ContextGraph {
 public:
  ContextGraph(const abi::Functions& functions, abi::Handle handle, GraphInfo info);
  ContextGraph(const ContextGraph&) = delete;
  ContextGraph& operator=(const ContextGraph&) = delete;

  const std::string& name() const { return info_.name; }
  const GraphInfo& info() const { return info_; }

  // Bytes of every input and output, in the order of info(). Sizes must be those of info(), as the library
  // would read and write past them. One call at a time for each ContextGraph; allocates nothing of ours.
  Status execute(std::span<const std::span<const std::byte>> inputs,
                 std::span<const std::span<std::byte>> outputs, const Profile* profile = nullptr);

  // For graphs with dynamic axes: the extents of an input or output from now on, and with them its bytes.
  // Only axes that are dynamic may differ from info(), and only to be smaller.
  Status resize_input(size_t i, std::span<const int64_t> sizes);
  Status resize_output(size_t i, std::span<const int64_t> sizes);

 private:
  const abi::Functions& functions_;
  abi::Handle handle_;
  GraphInfo info_;
  std::vector<abi::Tensor> inputs_, outputs_;  // ready but for the data
  std::vector<TensorInfo> now_in_, now_out_;   // of info_, with the extents of now
};

class Context {
 public:
  // Prepares all graphs for the backend's SoC: seconds for a large one. Static tensors are made, handed over
  // and freed one by one. The backend must outlive the context.
  static Result<Context> build(const Backend& backend, std::span<const GraphSpec> graphs,
                               const ContextOptions& options = {});
  // From a binary, whose info was read and checked before (check_fits). bytes are not needed afterwards,
  // unless the options say that they stay. Bytes that nobody vouches for may crash the library: load them in
  // a guard (qnn/guard.h) first.
  static Result<Context> load(const Backend& backend, std::span<const std::byte> bytes,
                              const BinaryInfo& info, const ContextOptions& options = {});

  // From a DLC, a graph that is not prepared for any SoC yet: that happens now. Unsupported for a library of
  // a version whose call for this is not known (see qnn/dlc.cpp). May crash the library as load may.
  static Result<Context> from_dlc(const Backend& backend, const SystemLibrary& system,
                                  std::span<const std::byte> bytes, const ContextOptions& options = {});

  Result<Bytes> binary(size_t room = 0) const;  // of a context that was built

  ContextGraph* graph(std::string_view name);  // null: there is none
  std::deque<ContextGraph>& graphs() { return graphs_; }

 private:
  const Backend* backend_ = nullptr;
  ContextHandle handle_;
  std::deque<ContextGraph> graphs_;
};

}  // namespace sixfold::qnn
