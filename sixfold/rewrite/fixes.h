// Changes to a model that may bring a node onto the NPU. Each is tried on a copy and asked of the device;
// what works is offered to the user, and made only when asked for (--apply-fixes), since some change numbers.
#pragma once

#include <span>
#include <string>

#include "sixfold/rewrite/prepare.h"

namespace sixfold {

class Htp;  // rewrite/htp.h

struct Fix {
  const char* name;  // "merge_axes"
  const char* what;  // for people: what is done instead
  bool exact;        // false: numbers change, and the report says by how much
  Match (*apply)(Htp& h);
  const char* then = nullptr;  // another fix, of what this one made
};

// In the order in which they are tried: what changes nothing comes first.
std::span<const Fix> fixes();
const Fix* find_fix(std::string_view name);

// Applies it to the nodes of this name that are one of the ops (none given: all). How many it matched.
Result<size_t> apply_fix(Graph& graph, const Fix& fix, std::string_view node, const std::set<Op>& ops,
                         const HtpTarget& target);

// After all fixes: conversions to float64 or bfloat16 and back, between two nodes that now compute in
// float32, go.
Status drop_round_trips(Graph& graph);

// A conversion that a fix put around a node. Where the device does not have it, the CPU converts.
bool is_conversion_of_fix(const Graph& graph, const Node& node);

}  // namespace sixfold
