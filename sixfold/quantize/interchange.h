// Encodings as JSON, in AIMET's form: version 1.0.0 is written, that and 0.6.1 are read.
#pragma once

#include <string>

#include "sixfold/graph/graph.h"

namespace sixfold {

// Gives values (activation_encodings) and constants (param_encodings) of the graph the encodings of a file,
// by name. A name that the graph does not have, a scale that is none, or as many scales as fit no axis are
// errors, all names at once.
Status import_encodings(Graph& graph, const std::string& path);

// Of every value and constant that has one and a name.
Status export_encodings(const Graph& graph, const std::string& path);

}  // namespace sixfold
