// The most and least that a symbolic extent can be.
#pragma once

#include "sixfold/graph/graph.h"

namespace sixfold {

struct Range {
  int64_t min = 0, max = 0;
};

// Of an expression, by intervals: exact for one symbol that appears once, otherwise perhaps wider. A symbol
// without an upper bound is an error that names it.
Result<Range> range_of(const Dim& dim, const std::map<std::string, SymbolRange>& symbols);

// The largest shape that a type can have.
Result<Shape> bound_of(const Dims& dims, const std::map<std::string, SymbolRange>& symbols);

}  // namespace sixfold
