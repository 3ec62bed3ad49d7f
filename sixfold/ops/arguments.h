// Arguments of an imported call: complete, in the order of the op's schema.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sixfold/graph/graph.h"
#include "sixfold/ops/schema.h"

namespace sixfold {

// One argument: tensors (then attr is unused), or a plain value.
struct Argument {
  Argument(Attr value) : attr(std::move(value)) {}              // NOLINT(google-explicit-constructor)
  Argument(ValueId value) : tensors{value}, is_tensor(true) {}  // NOLINT(google-explicit-constructor)
  static Argument list(std::vector<ValueId> values);

  Attr attr;
  std::vector<ValueId> tensors;
  bool is_tensor = false;
  bool is_list = false;
};
using NamedArguments = std::vector<std::pair<std::string, Argument>>;

// What Graph::add_node takes.
struct CallOperands {
  std::vector<ValueId> inputs;
  Attrs attrs;
};

// Reads the default of a schema argument: "None", "1", "[0, 0]", "\"none\"", 6 for a dtype.
Result<Attr> parse_default(const SchemaArg& arg);

// A plain value brought to the type of its schema argument: 1 for a float is 1.0, 2 for an int[2] is [2, 2].
Result<Attr> coerce(const SchemaArg& arg, Attr value);

// given in schema order, with what is missing filled in. An unnamed argument takes the place it stands in.
// Without a schema (a custom op) the arguments stay as they are.
Result<CallOperands> complete_call(const Schema* schema, NamedArguments given);

}  // namespace sixfold
