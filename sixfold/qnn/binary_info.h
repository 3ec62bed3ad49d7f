// What a context binary says of itself, read with libQnnSystem alone: no backend, no device.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "sixfold/qnn/library.h"

namespace sixfold::qnn {

// An input or output of a graph.
struct TensorInfo {
  std::string name;
  uint32_t id = 0;  // how execute finds it
  TensorKind kind = TensorKind::native;
  DataType dtype = DataType::undefined;
  std::vector<uint32_t> dims;
  Quantization quantization;
  size_t size_bytes = 0;
  std::vector<bool> dynamic;  // axes whose extent may be smaller than dims; empty: none
};

struct GraphInfo {
  std::string name;
  std::vector<TensorInfo> inputs, outputs;
  // As the graph was prepared; 0 where the binary does not say.
  uint64_t spill_fill_bytes = 0, hvx_threads = 0;
  uint32_t vtcm_bytes = 0, optimization_level = 0;
  bool dlbc = false;
};

struct BinaryInfo {
  uint32_t backend_id = 0;  // 6: HTP
  std::string build_id;     // of the library that made it
  Version core_api, backend_api, blob_version;
  uint32_t soc_model = 0;  // 0: not said
  uint32_t htp_arch = 0;   // 75
  std::vector<GraphInfo> graphs;

  const GraphInfo* graph(std::string_view name) const;
};

// InvalidModel when the bytes are none, or say what cannot be. Bytes are only read, and not needed
// afterwards. The library checks no content: damaged bytes may pass, so keep a hash beside them.
Result<BinaryInfo> read_binary_info(const SystemLibrary& system, std::span<const std::byte> bytes);

// The host's library loads a binary of any SoC and knows no answer for a newer one than itself: refused here
// with both sides named. soc 0: any.
Status check_fits(const BinaryInfo& info, const Library& library, uint32_t soc);

// Of a graph as the system library describes it, in binaries and DLCs.
Result<GraphInfo> read_graph_info(const abi::GraphInfo& graph);

// dims times the element's bytes; nothing for a type without a size, or when it does not fit 32 bits, which
// the API's sizes have.
Result<size_t> tensor_bytes(std::string_view name, DataType dtype, std::span<const uint32_t> dims);

}  // namespace sixfold::qnn
