// One method: values, instructions and memory of a legal graph.
#pragma once

#include "sixfold/package/package.h"

namespace sixfold {

// Adds the method to package.program and its figures to package.methods; the data of constants stays where it
// is, and package.data keeps it.
Status emit_method(const MethodSource& source, const PackageOptions& options, Package& package);

}  // namespace sixfold
