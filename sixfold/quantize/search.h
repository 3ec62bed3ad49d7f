// Precisions by layer: the cheapest that lose no more than is allowed.
#pragma once

#include <functional>
#include <map>

#include "sixfold/quantize/plan.h"

namespace sixfold {

// By NodeId::index: what a node computes in.
using SchemeOf = std::map<uint32_t, Scheme>;

struct SearchOptions {
  // The cheapest first; a layer that is not exact enough in one is given the next.
  std::vector<Scheme> schemes;
  double max_loss = 0.01;  // of the power of the output that is worst: what may be noise
  std::function<void(size_t done, size_t total)> progress;
};

struct SearchedLayer {
  std::string name;
  Op op = Op::call;            // of the node that costs most
  std::vector<NodeId> nodes;   // that compute something, of one node of the model
  std::vector<double> loss;    // by scheme, when it is the only one on grids; as many as were tried
  std::vector<double> micros;  // by scheme
  size_t chosen = 0;
};

struct Search {
  std::vector<SearchedLayer> layers;  // in order
  SchemeOf schemes;
  double predicted = 0, measured = 0;  // loss
  double micros = 0, least_micros = 0, most_micros = 0;
  size_t tries = 0;  // graphs that were run
};

// loss: noise by power of the quantized graph that these schemes make; nodes that they do not name are
// floats. An error when the last scheme everywhere still loses more.
Result<Search> search_precisions(const Graph& graph, const SearchOptions& options,
                                 const std::function<Result<double>(const SchemeOf&)>& loss);

}  // namespace sixfold
