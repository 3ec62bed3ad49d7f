// For tests and fuzzing: any bytes as a program, each of its methods loaded and run on zeros.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "sixfold/execute/method.h"

namespace sixfold {

// How many methods ran to their end. Memory is limited, since a small file may rightly ask for much of it.
inline size_t exercise_methods(std::span<const std::byte> file) {
  LoadOptions options;
  options.limits.arena_bytes = size_t{1} << 24;
  options.check_data = pte::CheckData::all;
  const auto program = Program::from_memory(file, options);
  if (!program.ok()) return 0;
  static const std::vector<std::byte> zeros(size_t{1} << 24);
  size_t finished = 0;
  for (const pte::Method& plan : program->methods()) {
    auto method = Method::load(*program, plan.name, {.max_instructions = 1000});
    if (!method.ok()) continue;
    bool ready = true;
    for (size_t i = 0; i < (*method)->input_count(); ++i) {
      const auto* tensor = std::get_if<TensorState>(&(*method)->input(i));
      if (!tensor) continue;
      const TensorView view{tensor->dtype, tensor->sizes, tensor->dim_order, zeros.data()};
      ready &= view.size_bytes() <= zeros.size() && (*method)->set_input(i, view).ok();
    }
    if (!ready || !(*method)->execute().ok()) continue;
    ++finished;
  }
  return finished;
}

}  // namespace sixfold
