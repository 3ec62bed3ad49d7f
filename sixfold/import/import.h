// Reads a .pt2 (torch.export.save of torch 2.9 to 2.13) into a functional Graph of ATen calls.
//
// Weights stay where they are: constants point into the mapped file and keep it mapped. Defaults are filled
// in, in-place ops and views are made functional (aliases.h), symbolic integers are expressions over
// graph.symbols. Nothing in the file is trusted; an error says what is wrong and where.
#pragma once

#include <cstdint>
#include <string>

#include "sixfold/base/zip.h"
#include "sixfold/graph/graph.h"

namespace sixfold {

struct ImportOptions {
  std::string model;       // which of several programs; empty: the only one, or "model"
  bool check_crc = false;  // of weights too: reads every byte of them
  // Nodes that cannot be read (control flow, complex numbers, shapes that depend on data) stay as calls with
  // an attribute (graph/unknown.h) that says why, instead of failing: to say all of a model, not to run it.
  bool keep_unknown = false;
};

// What the file says of itself.
struct ImportInfo {
  int64_t schema_major = 0, schema_minor = 0;
  std::string torch_version;
  std::string dialect;  // "TRAINING" as torch.export.export gives it, "ATEN" after run_decompositions
  std::string model;
  uint64_t file_bytes = 0;
  uint64_t program_bytes = 0;                     // its JSON
  std::string input_structure, output_structure;  // pytree text of the call; empty where the file has none
  std::vector<std::string> guards;                // Python expressions that the inputs must satisfy
};

Result<Graph> import_pt2(const std::string& path, const ImportOptions& options = {},
                         ImportInfo* info = nullptr);
Result<Graph> import_pt2(OwnedBytes file, const ImportOptions& options = {}, ImportInfo* info = nullptr);

}  // namespace sixfold
