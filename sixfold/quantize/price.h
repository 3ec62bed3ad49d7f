// What precisions take on the device, predicted, and what of it 16 bits instead of 8 are worth.
#pragma once

#include <set>

#include "sixfold/quantize/plan.h"

namespace sixfold {

// The longer of a node's products and its bytes.
double predicted_micros(const Graph& graph, const Node& node, const Scheme& scheme);

// Of a value that is converted from 8 bits to 16 or back.
double predicted_convert_micros(const Graph& graph, ValueId value);

// Whether nodes (NodeId::index) with 16 bits make the model at most a quarter longer, or nobody feels it.
bool are_cheap(const Graph& graph, const Scheme& scheme, const std::set<uint32_t>& wide);

// How much longer these nodes with 16 bits make the model, as a part of it, with what is converted around
// them.
double longer_with(const Graph& graph, const Graph& quantized, const Scheme& scheme,
                   const std::set<uint32_t>& wide);

// Those that are worth 16 bits where 8 cost most (find_costly_nodes), for as long as the nodes take that are
// wide already, or longer.
std::set<uint32_t> find_worthwhile_nodes(const Graph& graph, const QuantizePlan& plan,
                                         const Observations& seen, const Scheme& scheme,
                                         const std::set<uint32_t>& wide);

}  // namespace sixfold
