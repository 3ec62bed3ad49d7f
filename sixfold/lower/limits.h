// What the device asks of every node, whatever its op: static sizes, types, axes, bytes.
#pragma once

#include "sixfold/graph/graph.h"

namespace sixfold {

inline constexpr size_t kMaxDeviceRank = 5;

// Unsupported, with the rule's label, when a value that the node reads or makes is none that the device has.
//   htp.shape.1  a size is a symbol             htp.shape.2  a size depends on data
//   htp.rank.1   more than five axes            htp.empty.1  no elements
//   htp.type.1   float64 or bfloat16            htp.type.2   a constant that 32-bit integers do not hold
//   htp.size.1   more bytes than 32 bits address
Status check_limits(const Graph& graph, const Node& node);

// The symbols of a node's types, "s0, s1"; empty: all are numbers.
std::vector<std::string> symbols_of(const Graph& graph, const Node& node);
bool is_data_dependent(std::string_view symbol);  // u0, u1, ...: only the data tells

}  // namespace sixfold
