// Who lives where: the values of a legal graph as storages in one arena, and which steps a method needs.
//
// A view of a planned tensor is the tensor's own memory and no step; an elementwise step writes over an
// operand that nobody reads any more. What remains is placed by lifetimes (plan/arena.h).
#pragma once

#include <set>
#include <vector>

#include "sixfold/graph/graph.h"
#include "sixfold/package/package.h"

namespace sixfold {

struct Storage {
  enum Kind : uint8_t {
    planned,   // in the arena
    constant,  // in the file
    caller,    // memory that the caller brings
  } kind = planned;
  uint64_t bytes = 0;       // at most
  int first = 0, last = 0;  // steps; -1 is before the first
  uint64_t offset = 0;      // planned
  ValueId owner;            // the value that it was made for: has the data of constants and states
};

struct Placement {
  static constexpr uint32_t kNone = UINT32_MAX;
  std::vector<uint32_t> storage;  // by value; kNone: not used
  std::vector<Storage> storages;
  std::vector<NodeId> steps;  // nodes that are kernel calls, in order
  uint64_t arena_bytes = 0, naive_bytes = 0;
  size_t views = 0, in_place = 0;

  const Storage& of(ValueId v) const { return storages[storage[v.index]]; }
};

Result<Placement> place_values(const Graph& graph, const PackageOptions& options);

// Targets whose stock kernel reads each element of an operand of the result's shape before it writes the one
// in its place, and no other: the result may lie on such an operand.
bool works_in_place(std::string_view target);

}  // namespace sixfold
