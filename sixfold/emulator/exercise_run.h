// For tests and fuzzing: a binary loaded as any client would, and run. What loading lets through must run.
#pragma once

#include "sixfold/emulator/api.h"
#include "sixfold/emulator/emulator.h"

namespace sixfold::emulator {

// Whether it was loaded; runs of large graphs are left out.
inline bool exercise_binary(abi::Handle backend, abi::Handle device, std::span<const std::byte> bytes) {
  constexpr uint64_t kMostBytes = 1 << 24;
  const abi::Functions& f = library().functions();
  abi::Handle context = nullptr;
  if (f.context_from_binary(backend, device, nullptr, bytes.data(), bytes.size(), &context, nullptr) != 0)
    return false;
  const auto object = objects().contexts.find(context);
  for (const auto& g : object->graphs) {
    uint64_t most = g->graph.arena_bytes();
    for (const auto* list : {&g->graph.inputs(), &g->graph.outputs()})
      for (const uint32_t index : *list)
        most = std::max<uint64_t>(most, g->graph.tensors()[index].size_bytes());
    if (most > kMostBytes) continue;
    std::vector<std::vector<std::byte>> buffers;
    std::vector<abi::Tensor> tensors[2];
    for (const bool output : {false, true})
      for (const uint32_t index : output ? g->graph.outputs() : g->graph.inputs()) {
        const TensorDef& def = g->graph.tensors()[index];
        abi::Tensor t{};
        t.version = 1;
        t.v1.id = index + 1;
        t.v1.rank = static_cast<uint32_t>(def.rank());
        t.v1.dims = def.dims.data();
        buffers.emplace_back(def.size_bytes(), std::byte{3});
        t.v1.buffer = {buffers.back().data(), static_cast<uint32_t>(def.size_bytes())};
        tensors[output ? 1 : 0].push_back(t);
      }
    if (f.graph_execute(g->handle, tensors[0].data(), static_cast<uint32_t>(tensors[0].size()),
                        tensors[1].data(), static_cast<uint32_t>(tensors[1].size()), nullptr, nullptr) != 0)
      __builtin_trap();
  }
  f.context_free(context, nullptr);
  return true;
}

}  // namespace sixfold::emulator
