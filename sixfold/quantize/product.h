// Convolutions and linear layers whose weights are constants that may be changed.
#pragma once

#include <optional>
#include <vector>

#include "sixfold/graph/graph.h"

namespace sixfold {

bool is_plain_constant(const Graph& graph, ValueId v);
// A constant that only this node reads from now on, as floats to change.
float* own_data(Graph& graph, NodeId node, size_t operand);
bool is_kept(const Graph& graph, ValueId v);  // as an output or for the next run

// Weights as [outputs][inputs][taps] by group.
struct Product {
  NodeId node;
  int64_t groups = 1, outputs = 0, inputs = 0, taps = 1;  // outputs and inputs: of a group

  static std::optional<Product> of(const Graph& graph, NodeId id);
  // f(input channel of all, index into the weights)
  template <typename F>
  void for_inputs(const F& f) const {
    for (int64_t o = 0; o < groups * outputs; ++o)
      for (int64_t i = 0; i < inputs; ++i)
        for (int64_t t = 0; t < taps; ++t)
          f(static_cast<size_t>(o / outputs * inputs + i), static_cast<size_t>((o * inputs + i) * taps + t));
  }
  size_t input_channels() const { return static_cast<size_t>(groups * inputs); }
  size_t output_channels() const { return static_cast<size_t>(groups * outputs); }
};

// The largest weight of each channel.
std::vector<float> input_magnitudes(const Graph& graph, const Product& p);
std::vector<float> output_magnitudes(const Graph& graph, const Product& p);

void multiply_inputs(Graph& graph, const Product& p, const std::vector<float>& by);
void divide_outputs(Graph& graph, const Product& p, const std::vector<float>& by);  // its bias too

// A factor that weights bear; 1 where x is none.
float tame(float x);

}  // namespace sixfold
