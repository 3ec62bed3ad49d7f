// The payload of a "QnnBackend" delegate and its compile spec, checked as far as bytes alone tell: nothing of
// QNN is called here.
#pragma once

#include <span>

#include "sixfold/load/program.h"
#include "sixfold/pte/qnn_options.h"
#include "sixfold/qnn/binary_info.h"

namespace sixfold {

struct QnnPayload {
  pte::QnnOptions options;
  std::span<const std::byte> bytes;  // a context binary or a DLC
  bool may_be_dlc = false;
  bool vouched = false;  // the file's manifest has its hash
};

// device: SoC that it is to run on; 0: the one that the compile spec names.
Result<QnnPayload> read_qnn_payload(std::span<const std::byte> blob, std::span<const pte::CompileSpec> specs,
                                    const Program& program, uint32_t device);

// The library must be as new as the one that the file was made with, as far as its manifest says.
Status check_library_version(const Program& program, const qnn::Library& library);

// What the binary says of itself against the compile spec and the library.
Status check_binary_fits(const QnnPayload& payload, const qnn::BinaryInfo& info, const qnn::Library& library);

}  // namespace sixfold
