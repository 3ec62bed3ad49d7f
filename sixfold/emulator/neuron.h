// ElementWiseNeuron: its parameter `operation` names an op that other graphs have as a type of its own.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace sixfold::emulator {

inline constexpr std::array<std::string_view, 9> kNeurons = {
    "Elu", "Gelu", "HardSigmoid", "HardSwish", "Relu", "ReluMinMax", "Sigmoid", "Softplus", "Tanh"};

// Empty: there is no such operation.
constexpr std::string_view neuron_type(uint64_t operation) {
  return operation < kNeurons.size() ? kNeurons[operation] : std::string_view();
}

}  // namespace sixfold::emulator
