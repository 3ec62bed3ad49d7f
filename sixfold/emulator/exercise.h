// For tests and fuzzing: context binaries that nobody made, behind a right hash.
#pragma once

#include "sixfold/emulator/binary.h"
#include "sixfold/emulator/rules.h"

namespace sixfold::emulator {

// Read, and every op shown to its rules. Whether it was a binary.
inline bool exercise_reading(std::span<const std::byte> bytes) {
  const Result<BinaryContent> content = read_binary(bytes);
  if (!content.ok()) return false;
  static const TensorDef absent{.kind = TensorKind::null};
  for (const GraphDescription& g : content->graphs)
    for (const OpDef& op : g.ops) {
      std::vector<const TensorDef*> operands;
      for (const auto* list : {&op.in, &op.out})
        for (const uint32_t t : *list) operands.push_back(t < g.tensors.size() ? &g.tensors[t] : &absent);
      const std::span<const TensorDef* const> all(operands);
      (void)check_rules({op.name, op.type, all.first(op.in.size()), all.subspan(op.in.size()), op.params},
                        content->device);
    }
  return true;
}

}  // namespace sixfold::emulator
