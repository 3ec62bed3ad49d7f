// models/<name>.json -> Graph.
#pragma once

#include "sixfold/graph/graph.h"
#include "sixfold/import/archive.h"
#include "sixfold/import/import.h"

namespace sixfold {

// Fills in what info has of the program itself.
Result<Graph> import_program(const Pt2Archive& archive, ImportInfo& info, bool keep_unknown = false);

}  // namespace sixfold
