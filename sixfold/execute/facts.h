// What a method's instructions say of its values, found before anything runs.
#pragma once

#include <memory>
#include <vector>

#include "sixfold/pte/program.h"

namespace sixfold {

// A kernel call that only reorders the axes of a constant: its result can be the constant itself, read in
// another order. nn.Linear without a delegate is such a permute before each product.
struct RenamedConstant {
  size_t chain, instruction;
  pte::Index from, to;
  std::vector<uint8_t> dim_order;  // of `to`
};

struct MethodFacts {
  // By value. Not std::vector<bool>: spans of them are passed around.
  std::unique_ptr<bool[]> varies;  // its size, number or place changes while the method runs
  // An instruction reads it, the method returns it, or it is memory that one reads.
  std::unique_ptr<bool[]> read;
  std::vector<RenamedConstant> renamed;
  // Inputs that the file says to be of another order than row-major, though nothing reads them but views
  // which take their memory for row-major: then it is what they must be. ExecuTorch's exporter writes such
  // files for a reshape of a transposed input.
  std::vector<pte::Index> row_major_inputs;
};
MethodFacts find_facts(const pte::Method& method);

}  // namespace sixfold
