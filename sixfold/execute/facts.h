// What a method's instructions say of its values, found before anything runs.
#pragma once

#include <memory>
#include <vector>

#include "sixfold/pte/program.h"

namespace sixfold {

struct MethodFacts {
  // By value. Not std::vector<bool>: spans of them are passed around.
  std::unique_ptr<bool[]> varies;  // its size, number or place changes while the method runs
  std::unique_ptr<bool[]>
      read;  // an instruction reads it, the method returns it, or it is memory that one reads
};
MethodFacts find_facts(const pte::Method& method);

}  // namespace sixfold
