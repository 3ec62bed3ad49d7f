// The whole way from bytes to a Program that can be trusted: read, manifest, verify.
#pragma once

#include <cstddef>
#include <span>

#include "sixfold/base/result.h"
#include "sixfold/pte/manifest.h"
#include "sixfold/pte/read.h"
#include "sixfold/pte/verify.h"

namespace sixfold::pte {

struct OpenOptions {
  VerifyOptions verify;
  CheckData check_data = CheckData::small;
};

// The file must be aligned to 16 bytes, and outlive the Program. layout and sealed may be null; sealed is
// empty for a file without manifest.
inline Result<Program> open(std::span<const std::byte> file, const OpenOptions& options = {},
                            Layout* layout = nullptr, Sealed* sealed = nullptr) {
  Layout found;
  SF_ASSIGN(Program program, read(file, options.verify.limits, &found));
  // Damage is a better reason than what it led to.
  SF_TRY(check_manifest(file, found, options.check_data, sealed));
  SF_TRY(verify(program, options.verify));
  if (layout) *layout = std::move(found);
  return program;
}

}  // namespace sixfold::pte
