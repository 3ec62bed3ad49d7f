// Who writes and who reads the tensors of a graph.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "sixfold/emulator/graph.h"
#include "sixfold/emulator/neuron.h"

namespace sixfold::emulator {

struct Wiring {
  Wiring(size_t tensors, std::span<const OpDef> ops) : maker(tensors, nullptr), readers(tensors) {
    for (const OpDef& op : ops) {
      for (const uint32_t t : op.in)
        if (t != kNone) readers[t].push_back(&op);
      for (const uint32_t t : op.out)
        if (t != kNone) maker[t] = &op;
    }
  }
  std::vector<const OpDef*> maker;                 // by tensor; null: no op
  std::vector<std::vector<const OpDef*>> readers;  // by tensor; an op stands here for each operand
};

// Whether an op is of this type, or the ElementWiseNeuron that computes the same.
inline bool is_neuron(const OpDef& op, std::string_view type) {
  if (op.type == type) return true;
  if (op.type != "ElementWiseNeuron") return false;
  for (const ParamDef& p : op.params)
    if (p.name == "operation") return neuron_type(static_cast<uint32_t>(p.bits)) == type;
  return false;
}

}  // namespace sixfold::emulator
