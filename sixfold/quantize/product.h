// Products of operands and weights; those whose weights are constants that may be changed.
#pragma once

#include <optional>
#include <vector>

#include "sixfold/graph/graph.h"

namespace sixfold {

inline bool is_product(const Node& node) {
  return node.op == Op::convolution || node.op == Op::linear || node.op == Op::matmul;
}
bool is_plain_constant(const Graph& graph, ValueId v);
// A constant that only this node reads from now on, as floats to change.
float* own_data(Graph& graph, NodeId node, size_t operand);
bool is_kept(const Graph& graph, ValueId v);  // as an output or for the next run

// Weights as [outputs][inputs][taps] by group, or [inputs][outputs][taps] where they are transposed.
struct Product {
  NodeId node;
  int64_t groups = 1, outputs = 0, inputs = 0, taps = 1;  // outputs and inputs: of a group
  bool transposed = false;

  static std::optional<Product> of(const Graph& graph, NodeId id);
  // f(input channel of all, output channel of all, index into the weights)
  template <typename F>
  void for_weights(const F& f) const {
    const int64_t rows = transposed ? inputs : outputs, columns = transposed ? outputs : inputs;
    size_t at = 0;
    for (int64_t r = 0; r < groups * rows; ++r)
      for (int64_t k = 0; k < columns; ++k) {
        const auto row = static_cast<size_t>(r), column = static_cast<size_t>(r / rows * columns + k);
        for (int64_t t = 0; t < taps; ++t) f(transposed ? row : column, transposed ? column : row, at++);
      }
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
