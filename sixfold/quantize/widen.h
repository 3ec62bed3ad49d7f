// Values that so many bits do not tell: a few large elements take the range, and most others lie within a
// step or two of zero (residuals with outliers, squares, spectra). Around them nodes compute with 16 bits
// instead of 8, or with halves instead of 16.
#pragma once

#include <functional>
#include <set>

#include "sixfold/quantize/plan.h"

namespace sixfold {

// Of NodeId::index, for QuantizeOptions::wide or in_float.
std::set<uint32_t> find_wide_nodes(const Graph& graph, const QuantizePlan& plan, const Observations& seen,
                                   int bits);

// Logarithms of spectra and what computes their power, which no grid tells: halves do.
std::set<uint32_t> find_logarithms(const Graph& graph, const Observations& seen);

// Outputs that are joined of parts, one of which has next to nothing of the 8-bit grid that all share: boxes
// in pixels leave probabilities beside them less than a step. The output's decibels do not show it.
struct UnequalJoins {
  std::set<uint32_t> nodes;    // from the parts to the outputs
  std::vector<ValueId> parts;  // of each once
};
UnequalJoins find_unequal_joins(const Graph& graph, const QuantizePlan& plan, const Observations& seen);

// What 16 bits take instead of 8, in microseconds: a node, and a value that one side has in 8 and one in 16.
struct WideCost {
  std::function<double(const Node&)> node;
  std::function<double(ValueId)> convert;
};

// Nodes around the values that 8 bits cost most for the time that 16 take there, as many as the time allows.
// Nothing where less than this part of all the noise is theirs.
std::set<uint32_t> find_costly_nodes(const Graph& graph, const QuantizePlan& plan, const Observations& seen,
                                     const WideCost& cost, double most_micros, double least_part);
// What such nodes take more, with the converts around them.
double wide_micros(const Graph& graph, const std::set<uint32_t>& nodes, const WideCost& cost);

// What lies around a model's ends, of NodeId::index: a first layer sees edges and corners that few elements
// are, and what a last layer reads nothing after it evens out.
std::set<uint32_t> find_first_nodes(
    const Graph& graph);                                 // the first three products on every way, and between
std::set<uint32_t> find_last_nodes(const Graph& graph);  // the last one, what it reads and what follows

// Whether halves hold all that the node reads and gives.
bool fits_halves(const Graph& graph, const Node& node, const Observations& seen);

}  // namespace sixfold
