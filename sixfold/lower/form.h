// Forms: the order of axes in which a node of an island computes.
//
// Convolutions and pools want the channel last, products and reshapes want torch's order, and most of the
// rest takes what it gets. A transposition costs a pass over the data, so the free ones are chosen to leave
// the fewest: exactly, as a minimum cut (form.cpp).
#pragma once

#include <vector>

#include "sixfold/graph/graph.h"

namespace sixfold {

enum class Form : uint8_t { plain, channels_last };

// What a node asks for. image: channels_last; follow: either, all operands alike.
enum class Wish : uint8_t { plain, follow, image };
Wish wish_of(const Graph& graph, const Node& node);

// Axes of a channels-last tensor in torch's numbers: [0, 2, 3, 1] for rank 4. Ranks below 3 have no other
// order.
Shape channels_last_order(size_t rank);
// Where axis a of torch's order is found in the other.
int64_t channels_last_axis(int64_t a, size_t rank);
Dims in_form(const Dims& dims, Form form);

struct Forms {
  std::vector<Form> nodes;  // by NodeId::index
  size_t transposes = 0;    // how many values change their order on the way
  Form of(const Node& node) const { return nodes[node.id.index]; }
};
Forms choose_forms(const Graph& graph);

}  // namespace sixfold
