// The compile spec of a delegate of Qualcomm's: for whom its context binary was made and how it is to be run.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sixfold/base/result.h"

namespace sixfold::pte {

inline constexpr const char* kQnnBackend = "QnnBackend";
inline constexpr const char* kQnnSpecKey = "qnn_compile_spec";

struct QnnOptions {
  int32_t soc = 0;  // Qualcomm's id
  int32_t arch = 0;
  uint32_t vtcm_mb = 0;
  int32_t backend = 2;           // HTP
  bool fp16 = false;             // else quantized
  int32_t performance_mode = 2;  // burst
  bool weight_sharing = false;
  int32_t log_level = 1;  // errors
  int32_t profile_level = 0;
  bool online_prepare = false;  // the blob is a DLC, to be compiled where it is loaded
  bool single_heads = false;
  bool dump_intermediates = false;   // every tensor of the graph is among its outputs
  bool from_context_binary = false;  // others made the binary: its tensors have their own names
  bool dlbc = false, slc_allocator = false, fold_relu = true, conv_on_hmx = true;
  uint32_t op_packages = 0;  // libraries with ops of the user's that it needs
};

// "HTP"; a number that is none: "backend 9".
std::string qnn_backend_name(int32_t backend);

std::vector<std::byte> write_qnn_options(const QnnOptions& options);
Result<QnnOptions> read_qnn_options(std::span<const std::byte> bytes);

}  // namespace sixfold::pte
