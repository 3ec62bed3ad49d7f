// Runs an instruction on numbers, or on the places of tensors.
#pragma once

#include <span>

#include "sixfold/execute/values.h"
#include "sixfold/load/prim_table.h"

namespace sixfold {

// args: those of the call, as many as the prim's arity.
Status run_prim(Prim prim, std::span<const pte::Index> args, Values& values);

}  // namespace sixfold
