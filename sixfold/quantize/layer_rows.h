// Some of what convolutions and linear layers read in samples, as rows that their weights multiply.
#pragma once

#include <span>
#include <vector>

#include "sixfold/cpu/kernel.h"
#include "sixfold/graph/graph.h"
#include "sixfold/quantize/ranks.h"

namespace sixfold {

struct LayerInputs {
  NodeId node;
  ValueId source;                                // whose elements, seen as `shape`, the layer reads
  Shape shape;                                   // of the operand
  int64_t groups = 1, channels = 0, inputs = 0;  // of a group
  // Of a transposed convolution each tap is a channel of its own: [output channel][tap].
  bool transposed = false;
  int64_t taps = 1;
  bool given = false;                           // the weight's scales are not for us to choose
  std::vector<std::span<const float>> samples;  // by sample: [row][group][inputs]
  size_t rows() const;
};

// Looks on while a graph runs. Places are chosen by the sample's number, not by who is faster.
class LayerRows {
 public:
  // Layers with constant weights. rows: of a layer, over all samples; fewer if they would fill the memory.
  LayerRows(const Graph& graph, size_t samples, size_t rows);
  // Several samples may be looked at at once.
  void look(size_t sample, ValueId value, const cpu::TensorDesc& desc, const void* data);
  // What other processes looked at.
  void exchange(const Ranks& ranks);
  std::span<const LayerInputs> layers() const { return layers_; }

 private:
  void take(LayerInputs& layer, size_t sample, const cpu::TensorDesc& desc, const float* x, float* to) const;
  void take_windows(const LayerInputs& layer, size_t sample, const Shape& strides, const float* x,
                    float* to) const;
  // Of a sample's rows, and of the floats in them.
  int64_t rows_of(const LayerInputs& layer) const;
  size_t floats_of(const LayerInputs& layer) const;
  float* room_of(size_t layer, size_t sample) const;

  const Graph& graph_;
  std::vector<LayerInputs> layers_;
  std::vector<OwnedBlock> memory_;            // by layer: rows of one sample after the other
  std::vector<std::vector<size_t>> readers_;  // by value: layers
  size_t samples_, most_ = 0;                 // rows of a sample
};

}  // namespace sixfold
